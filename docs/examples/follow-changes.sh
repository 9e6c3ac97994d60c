#!/bin/sh
# Hands each change to ./handle. Start it from cron or in a loop; it continues where it was. It ends with the code of
# pushsweep changes, or with 1 where a change was not handled.
place=/var/lib/follower/cursor
since=$(cat "$place" 2>/dev/null || echo 2026-11-22T10:00:00Z)
pushsweep changes --since "$since" > "$place.changes"
code=$?
while read -r line; do
    printf '%s\n' "$line" | ./handle || exit 1
    printf '%s\n' "$line" | jq -r .cursor > "$place.new" && mv "$place.new" "$place" || exit 1
done < "$place.changes" || exit 1
exit "$code"
