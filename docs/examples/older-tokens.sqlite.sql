-- A token column of BLOBs is reported as hex(o.device_token). Where a column of apps or environments is missing, leave its
-- comparison and its part of GROUP BY out, and select the name of the settings.
-- With tokens of several kinds, such as alert and VoIP, add: AND n.kind = o.kind
INSERT INTO pushsweep_evidence (app, environment, device_token, reason, timestamp_ms, sent_at)
SELECT o.app_id, o.environment, o.device_token, 'Superseded',
  CAST(round((max(julianday(n.registered_at)) - 2440588.5) * 86400000) AS INTEGER),
  strftime('%Y-%m-%d %H:%M:%f', max(julianday(n.registered_at)) - 1)
FROM active_users AS o JOIN active_users AS n
  ON n.device_id = o.device_id AND n.app_id = o.app_id AND n.environment = o.environment
WHERE o.device_id <> ''
  AND n.device_token <> o.device_token
  AND julianday(n.registered_at) >= julianday(o.registered_at) + 1
  AND julianday(n.registered_at) <= julianday('now') - 7
  AND (o.invalidated_at IS NULL OR julianday(o.registered_at) > julianday(o.invalidated_at))
  AND (n.invalidated_at IS NULL OR julianday(n.registered_at) > julianday(n.invalidated_at))
  AND NOT EXISTS (SELECT 1 FROM active_users AS s WHERE s.device_token = o.device_token
    AND s.app_id = o.app_id AND s.environment = o.environment AND s.device_id IS NOT o.device_id)
GROUP BY o.app_id, o.environment, o.device_token;
