"""Prints the tokens of one file that are not in another one with duckdb: TOKENS STALE."""

import sys

import duckdb

LINES = "read_csv(?, header = false, columns = {'token': 'VARCHAR'})"

duckdb.execute(
    f"COPY (SELECT token FROM {LINES} t ANTI JOIN {LINES} s USING (token)) "
    "TO '/dev/stdout' (FORMAT csv, HEADER false)", sys.argv[1:])
