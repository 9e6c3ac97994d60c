DELIMITER $$
CREATE TRIGGER pushsweep_registered_insert BEFORE INSERT ON active_users FOR EACH ROW
BEGIN
  DECLARE EXIT HANDLER FOR 1054 BEGIN END;
  IF @pushsweep IS NULL AND COALESCE(NEW.registered_at + 0, 0) <= 0 THEN
    SET NEW.registered_at = UTC_TIMESTAMP(3);
  END IF;
END
$$
CREATE TRIGGER pushsweep_registered_update BEFORE UPDATE ON active_users FOR EACH ROW
BEGIN
  DECLARE EXIT HANDLER FOR 1054 BEGIN END;
  IF @pushsweep IS NULL
    AND (NEW.registered_at <=> OLD.registered_at OR COALESCE(NEW.registered_at + 0, 0) <= 0) THEN
    IF NOT (CAST(NEW.device_token AS BINARY) <=> CAST(OLD.device_token AS BINARY)) THEN
      SET NEW.registered_at = UTC_TIMESTAMP(3);
    ELSEIF NEW.registered_at <=> OLD.registered_at
      AND CAST(NEW.udid AS BINARY) <=> CAST(OLD.udid AS BINARY)
      AND CAST(NEW.nickname AS BINARY) <=> CAST(OLD.nickname AS BINARY)
      AND NEW.invalidated_at <=> OLD.invalidated_at
      AND CAST(NEW.invalid_reason AS BINARY) <=> CAST(OLD.invalid_reason AS BINARY)
    THEN
      SET NEW.registered_at = UTC_TIMESTAMP(3);
    END IF;
  END IF;
END
$$
DELIMITER ;
