#!/bin/sh
# docs/recipes/mirror.md: run it in the folder of the copy, with PGDATABASE set. It ends with the code of the sweep, or of
# ./evidence, which imports reports once the copy has the tokens.
here=$(dirname "$0")
set -e
psql -q -f "$here/mirror-export.sql" > devices.csv
sqlite3 mirror.sqlite < "$here/mirror-load.sql"
code=0
[ ! -x ./evidence ] || ./evidence || code=$?
pushsweep sweep --config mirror.yaml || code=$?
since=$(psql -Atc "SELECT cursor FROM pushsweep_cursor")
pushsweep changes --since "$since" --whole-tokens --format csv --config mirror.yaml > changes.csv
psql -q -v ON_ERROR_STOP=1 -f "$here/mirror-back.sql"
exit $code
