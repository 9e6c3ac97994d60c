#!/bin/sh
# /etc/pushsweep/after-run: only what needs a person goes to the chat. /etc/pushsweep/chat.curl has the
# line url = "https://chat.example.net/hooks/SECRET" and mode 0600.
case $PUSHSWEEP_EXIT in 0|4|69|75) exit 0 ;; esac
text="pushsweep $PUSHSWEEP_KIND on $(hostname) ended with $PUSHSWEEP_EXIT (run $PUSHSWEEP_RUN)"
printf '{"text": "%s"}' "$text" |
    curl -fsS -m 8 -K /etc/pushsweep/chat.curl -H 'Content-Type: application/json' --data-binary @-
