-- docs/recipes/mirror.md: the mark and the place of the cursor, in PostgreSQL.
ALTER TABLE devices ADD invalidated_at timestamptz;
CREATE TABLE pushsweep_cursor (cursor text NOT NULL);
INSERT INTO pushsweep_cursor VALUES ('n0');
