CREATE TABLE installations (
  objectId varchar(10) NOT NULL PRIMARY KEY,
  installationId varchar(36) NOT NULL,
  deviceToken varchar(200) NULL,
  deviceType varchar(20) NOT NULL,
  pushType varchar(20) NULL,
  appIdentifier varchar(255) NULL,
  appName varchar(255) NULL,
  appVersion varchar(50) NULL,
  badge int NULL,
  localeIdentifier varchar(20) NULL,
  timeZone varchar(50) NULL,
  createdAt datetime(3) NOT NULL,
  updatedAt datetime(3) NOT NULL,
  KEY deviceToken (deviceToken)
) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
