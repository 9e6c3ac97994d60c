CREATE TRIGGER pushsweep_registered_insert AFTER INSERT ON active_users FOR EACH ROW
WHEN COALESCE(trim(NEW.registered_at), '') IN ('', '0') OR NEW.registered_at GLOB '0000-00-00*'
BEGIN
  UPDATE active_users SET registered_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE udid IS NEW.udid;
END;

CREATE TRIGGER pushsweep_registered_update AFTER UPDATE OF device_token ON active_users FOR EACH ROW
WHEN NEW.registered_at IS OLD.registered_at OR COALESCE(trim(NEW.registered_at), '') IN ('', '0')
BEGIN
  UPDATE active_users SET registered_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE udid IS NEW.udid;
END;
