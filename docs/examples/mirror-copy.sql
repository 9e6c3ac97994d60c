-- docs/recipes/mirror.md: the copy in SQLite.
CREATE TABLE devices (
  id INTEGER PRIMARY KEY, user_id TEXT, device_token TEXT NOT NULL, registered_at DATETIME NOT NULL,
  invalidated_at DATETIME, invalid_reason TEXT);
CREATE INDEX devices_token ON devices (device_token);
