#!/bin/sh
# docs/recipes/mirror.md: run it in the folder of the copy, with PGDATABASE set. It ends with the code of the sweep, or of
# ./evidence, which imports reports once the copy has the tokens.
here=$(dirname "$0")
set -e
psql -q -v ON_ERROR_STOP=1 -f "$here/mirror-export.sql" > devices.new
# Reports about tokens that the copy lacks count as unknown: an export of nothing must not empty it.
[ -s devices.new ] || { echo "mirror: the export has no token; nothing was changed" >&2; exit 1; }
mv devices.new devices.csv
sqlite3 mirror.sqlite < "$here/mirror-load.sql"
code=0
[ ! -x ./evidence ] || ./evidence || code=$?
pushsweep sweep --config mirror.yaml || code=$?
since=$(psql -v ON_ERROR_STOP=1 -Atc "SELECT cursor FROM pushsweep_cursor")
pushsweep changes --since "$since" --whole-tokens --format csv --config mirror.yaml > changes.csv
psql -q -v ON_ERROR_STOP=1 -f "$here/mirror-back.sql"
exit $code
