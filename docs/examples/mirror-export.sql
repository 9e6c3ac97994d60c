-- docs/recipes/mirror.md: the tokens of PostgreSQL, times in UTC.
COPY (SELECT id, user_id, lower(device_token), to_char(registered_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS')
      FROM devices WHERE platform = 'ios') TO STDOUT (FORMAT csv)
