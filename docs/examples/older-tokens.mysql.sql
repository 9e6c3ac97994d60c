-- A binary token column is reported as HEX(o.device_token). Where a column of apps or environments is missing, leave its
-- comparison and its part of GROUP BY out, and select the name of the settings.
-- With tokens of several kinds, such as alert and VoIP, add: AND n.kind = o.kind
SET time_zone = '+00:00';
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
INSERT INTO pushsweep_evidence (app, environment, device_token, reason, timestamp_ms, sent_at)
SELECT o.app_id, o.environment, o.device_token, 'Superseded',
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MAX(n.registered_at)) DIV 1000 - 86400000,
  MAX(n.registered_at) - INTERVAL 1 DAY
FROM active_users AS o JOIN active_users AS n
  ON n.device_id = o.device_id AND n.app_id = o.app_id AND n.environment = o.environment
WHERE o.device_id <> ''
  AND n.device_token <> o.device_token
  AND n.registered_at >= NULLIF(o.registered_at, 0) + INTERVAL 1 DAY
  AND n.registered_at <= UTC_TIMESTAMP(3) - INTERVAL 7 DAY
  AND (o.invalidated_at IS NULL OR o.registered_at > o.invalidated_at)
  AND (n.invalidated_at IS NULL OR n.registered_at > n.invalidated_at)
  AND NOT EXISTS (SELECT 1 FROM active_users AS s WHERE s.device_token = o.device_token
    AND s.app_id = o.app_id AND s.environment = o.environment AND NOT (s.device_id <=> o.device_id))
GROUP BY o.app_id, o.environment, o.device_token;
