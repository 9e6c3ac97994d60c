CREATE TABLE rpush_apps (
  id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(255) NOT NULL, environment varchar(255) DEFAULT NULL,
  certificate text, password varchar(255) DEFAULT NULL, connections int NOT NULL DEFAULT 1,
  created_at datetime(6) NOT NULL, updated_at datetime(6) NOT NULL, type varchar(255) NOT NULL,
  auth_key varchar(255) DEFAULT NULL, client_id varchar(255) DEFAULT NULL, client_secret varchar(255) DEFAULT NULL,
  access_token varchar(255) DEFAULT NULL, access_token_expiration datetime DEFAULT NULL, apn_key text,
  apn_key_id varchar(255) DEFAULT NULL, team_id varchar(255) DEFAULT NULL, bundle_id varchar(255) DEFAULT NULL,
  feedback_enabled tinyint(1) DEFAULT 1
) DEFAULT CHARSET=utf8mb4;
CREATE TABLE rpush_notifications (
  id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, badge int DEFAULT NULL, device_token varchar(255) DEFAULT NULL,
  sound varchar(255) DEFAULT NULL, alert text, data text, expiry int DEFAULT 86400,
  delivered tinyint(1) NOT NULL DEFAULT 0, delivered_at datetime DEFAULT NULL,
  failed tinyint(1) NOT NULL DEFAULT 0, failed_at datetime DEFAULT NULL, error_code int DEFAULT NULL,
  error_description text, deliver_after datetime DEFAULT NULL, created_at datetime(6) NOT NULL,
  updated_at datetime(6) NOT NULL, alert_is_json tinyint(1) NOT NULL DEFAULT 0, type varchar(255) NOT NULL,
  collapse_key varchar(255) DEFAULT NULL, delay_while_idle tinyint(1) NOT NULL DEFAULT 0,
  registration_ids mediumtext, app_id int NOT NULL, retries int DEFAULT 0, uri varchar(255) DEFAULT NULL,
  fail_after datetime DEFAULT NULL, processing tinyint(1) NOT NULL DEFAULT 0, priority int DEFAULT NULL,
  url_args text, category varchar(255) DEFAULT NULL, content_available tinyint(1) NOT NULL DEFAULT 0,
  notification text, mutable_content tinyint(1) NOT NULL DEFAULT 0, external_device_id varchar(255) DEFAULT NULL,
  thread_id varchar(255) DEFAULT NULL, dry_run tinyint(1) NOT NULL DEFAULT 0, sound_is_json tinyint(1) DEFAULT 0,
  KEY index_rpush_notifications_multi (delivered, failed, processing, deliver_after, created_at)
) DEFAULT CHARSET=utf8mb4;
CREATE TABLE rpush_feedback (
  id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, device_token varchar(255) DEFAULT NULL, failed_at datetime NOT NULL,
  created_at datetime(6) NOT NULL, updated_at datetime(6) NOT NULL, app_id int DEFAULT NULL,
  KEY index_rpush_feedback_on_device_token (device_token)
) DEFAULT CHARSET=utf8mb4;
CREATE TABLE devices (
  id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, user_id bigint NOT NULL, platform varchar(255) NOT NULL,
  token varchar(255) NOT NULL, created_at datetime(6) NOT NULL, updated_at datetime(6) NOT NULL,
  UNIQUE KEY index_devices_on_token (token)
) DEFAULT CHARSET=utf8mb4;
