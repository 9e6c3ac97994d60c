#!/bin/sh
# Hands each change to ./handle. Start it from cron or in a loop; it continues where it was.
place=/var/lib/follower/cursor
since=$(cat "$place" 2>/dev/null || echo 2026-11-22T10:00:00Z)
pushsweep changes --since "$since" | while read -r line; do
    printf '%s\n' "$line" | ./handle || exit 1
    printf '%s\n' "$line" | jq -r .cursor > "$place.new" && mv "$place.new" "$place"
done
