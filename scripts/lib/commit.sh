# shellcheck shell=bash
# The commit of these sources, for PUSHSWEEP_COMMIT of a build. Source this file, then:
#
#   source_commit    prints it, `-modified` at its end where files differ from it; `unknown` where
#                    nothing tells
#   source_time      prints its time in seconds, for builds that can be repeated; the day of the
#                    newest build in CHANGELOG.md where nothing tells
#
# Both look at the repository these sources are the top of, and else at the words that git archive
# leaves here: an archive has them in place of the formats.

ARCHIVED_COMMIT='$Format:%H$'
ARCHIVED_TIME='$Format:%ct$'
COMMIT_ROOT=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)

# git, which else refuses the repository of another user, as in `sudo scripts/install`.
commit_git() { git -c safe.directory="$COMMIT_ROOT" -C "$COMMIT_ROOT" "$@" 2>/dev/null; }

# Whether these sources are the top of a repository, and not a folder somewhere in another.
commit_has_git() { [ "$(commit_git rev-parse --show-toplevel)" = "$COMMIT_ROOT" ]; }

source_commit() {
    local modified=""
    if [ -n "${PUSHSWEEP_COMMIT:-}" ]; then
        echo "$PUSHSWEEP_COMMIT"
    elif commit_has_git; then
        [ -z "$(commit_git status --porcelain --untracked-files=no)" ] || modified=-modified
        echo "$(commit_git rev-parse HEAD)$modified"
    else
        case $ARCHIVED_COMMIT in
        *Format*) echo unknown ;;
        *) echo "$ARCHIVED_COMMIT" ;;
        esac
    fi
}

source_time() {
    if commit_has_git; then
        commit_git log -1 --format=%ct
        return
    fi
    case $ARCHIVED_TIME in
    *Format*) date -u -d "$(newest_day)" +%s ;;
    *) echo "$ARCHIVED_TIME" ;;
    esac
}

# The day of the newest version or build in CHANGELOG.md, such as 2026-11-23.
newest_day() {
    sed -n 's/^## .*\(20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]\).*/\1/p' "$COMMIT_ROOT/CHANGELOG.md" | head -n 1
}
