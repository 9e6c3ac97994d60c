CREATE TABLE installations (
  objectId TEXT NOT NULL PRIMARY KEY,
  installationId TEXT NOT NULL,
  deviceToken TEXT NULL,
  deviceType TEXT NOT NULL,
  pushType TEXT NULL,
  appIdentifier TEXT NULL,
  appName TEXT NULL,
  appVersion TEXT NULL,
  badge INTEGER NULL,
  localeIdentifier TEXT NULL,
  timeZone TEXT NULL,
  createdAt TEXT NOT NULL,
  updatedAt TEXT NOT NULL
);
CREATE INDEX deviceToken ON installations (deviceToken);
