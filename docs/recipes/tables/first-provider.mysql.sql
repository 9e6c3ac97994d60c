CREATE TABLE devices (
  id int NOT NULL AUTO_INCREMENT PRIMARY KEY,
  user_id int NOT NULL,
  device_token varchar(64) NOT NULL,
  created_at datetime NOT NULL,
  KEY device_token (device_token)
) ENGINE=InnoDB DEFAULT CHARSET=utf8;
