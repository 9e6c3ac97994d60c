"""Prints token and time of the lines of a log whose status is 410 with duckdb: LOG."""

import sys

import duckdb

duckdb.execute(
    "COPY (SELECT device, timestamp FROM read_ndjson(?, columns = "
    "{'device': 'VARCHAR', 'status': 'INTEGER', 'timestamp': 'BIGINT'}) WHERE status = 410) "
    "TO '/dev/stdout' (FORMAT csv, HEADER false)", sys.argv[1:])
