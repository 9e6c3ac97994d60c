CREATE TABLE devices (
  id int NOT NULL AUTO_INCREMENT PRIMARY KEY,
  device_token char(64) NOT NULL,
  registered_at datetime NOT NULL,
  UNIQUE KEY device_token (device_token)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
