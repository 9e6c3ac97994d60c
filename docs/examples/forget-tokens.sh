#!/bin/sh
# /usr/local/bin/forget-tokens gets tokens on standard input, a line each, and may get one twice.
umask 077
place=/var/lib/pushsweep/forgotten
work=$(mktemp -d "$place.XXXXXX") || exit
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
since=$(cat "$place" 2>/dev/null || echo n0)
pushsweep changes --since "$since" --whole-tokens > "$work/new" || exit
# The last change of a token counts: an undo may have made it valid again. An app that the settings do
# not name any more has no name: its tokens are gone.
jq -r 'select(.token) | [.app, .environment, .token, .state, .name // ""] | @tsv' "$work/new" |
    awk -F '\t' '{key = $1 FS $2 FS $3; last[key] = $4; name[key] = $5}
        END {for (key in last) if (last[key] != "valid") print key FS name[key]}' > "$work/dead" || exit
# A device may have registered since. The filter prints the tokens that live.
awk -F '\t' '$4 != "" {print $2 FS $4}' "$work/dead" | sort -u > "$work/apps"
while IFS=$(printf '\t') read -r environment app; do
    export environment app
    awk -F '\t' '$2 == ENVIRON["environment"] && $4 "" == ENVIRON["app"] "" {print $3}' "$work/dead" |
        pushsweep preflight --filter --only-known --read-only --app "$app" --environment "$environment" || exit
done < "$work/apps" > "$work/living"
cut -f 3 "$work/dead" | grep -vxFf "$work/living" > "$work/gone"
[ ! -s "$work/gone" ] || /usr/local/bin/forget-tokens < "$work/gone" || exit
tail -n 1 "$work/new" | jq -r '.cursor // empty' > "$work/next"
[ ! -s "$work/next" ] || mv "$work/next" "$place"
