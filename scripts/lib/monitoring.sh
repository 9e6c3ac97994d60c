#!/usr/bin/env bash
# Checks the alerts of docs/monitoring with promtool, when each fires too, and the queries of the dashboard.
# That each metric exists is a test of the program: MonitoringTests.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../docs/monitoring"

if ! command -v promtool >/dev/null; then
    # Debian's package with promtool would start a server, so scripts/bootstrap does not install it.
    echo "monitoring: promtool is not on PATH, so the alerts are not checked" >&2
    exit 0
fi
promtool check rules alerts.yaml
promtool test rules alerts-test.yaml

# promtool reads queries in rules only. A dashboard's variables stand inside strings.
queries=$(mktemp --suffix=.yaml)
trap 'rm -f "$queries"' EXIT
jq '{groups: [{name: "dashboard", rules: [.panels[] | .title as $title | .targets[]
    | {record: "dashboard:query", labels: {panel: $title, query: .refId}, expr}]}]}' dashboard.json >"$queries"
promtool check rules "$queries"
