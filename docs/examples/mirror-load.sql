-- docs/recipes/mirror.md: for sqlite3. The marks of the copy stay.
.bail on
CREATE TEMP TABLE fresh (id INTEGER PRIMARY KEY, user_id TEXT, device_token TEXT, registered_at TEXT);
.import --csv --schema temp devices.csv fresh
BEGIN IMMEDIATE;
DELETE FROM devices WHERE id NOT IN (SELECT id FROM fresh);
INSERT INTO devices (id, user_id, device_token, registered_at)
  SELECT id, user_id, device_token, registered_at FROM fresh WHERE true
  ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, device_token = excluded.device_token,
    registered_at = excluded.registered_at;
COMMIT;
