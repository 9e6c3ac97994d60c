-- docs/recipes/mirror.md: for psql. The cursor moves in the same transaction, so a kill loses and repeats nothing.
-- A device that registered since the export stays living.
BEGIN;
CREATE TEMP TABLE change (place bigserial, cursor text, changed timestamptz, app text, environment text, action text,
  state text, key bigint, token text, evidence timestamptz, source text, reason text, run text, name text) ON COMMIT DROP;
\copy change (cursor, changed, app, environment, action, state, key, token, evidence, source, reason, run, name) FROM changes.csv WITH (FORMAT csv, HEADER)
UPDATE devices d SET invalidated_at = CASE WHEN c.state = 'valid' THEN NULL ELSE c.evidence END
FROM (SELECT DISTINCT ON (key) key, token, state, evidence FROM change ORDER BY key, place DESC) c
WHERE d.id = c.key AND lower(d.device_token) = c.token AND (c.state = 'valid' OR d.registered_at <= c.evidence);
UPDATE pushsweep_cursor SET cursor = c.cursor FROM (SELECT cursor FROM change ORDER BY place DESC LIMIT 1) c;
COMMIT;
