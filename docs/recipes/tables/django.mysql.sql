CREATE TABLE `push_notifications_apnsdevice` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `name` varchar(255) DEFAULT NULL,
  `active` tinyint(1) NOT NULL,
  `date_created` datetime(6) DEFAULT NULL,
  `device_id` char(32) DEFAULT NULL,
  `registration_id` varchar(200) NOT NULL,
  `user_id` int(11) DEFAULT NULL,
  `application_id` varchar(64) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `push_notifications_apnsdevice_user_id_44cc44d2_fk_auth_user_id` (`user_id`),
  KEY `push_notifications_apnsdevice_device_id_0ac3cde3` (`device_id`),
  KEY `push_notifications_apnsdevice_registration_id_5502bc8c` (`registration_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
