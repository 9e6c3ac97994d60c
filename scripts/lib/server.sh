# shellcheck shell=bash
# The server of a test or benchmark run: a private MariaDB, with --on mysql a private MySQL, or with --on KIND
# a node of a private cluster. Source it after scripts/lib/mariadb.sh and mysql.sh, in the root of the sources:
#
#   server_words WORD...     takes --on KIND out of the words: SERVER_ON is the kind or empty, SERVER_WORDS
#                            are the others
#   server_start [WORD...]   starts it, with the words of mariadb_start, mysql_start or scripts/cluster KIND start
#   server_stop              stops what server_start started; a cluster that was there before stays

server_words() {
    SERVER_ON="" SERVER_WORDS=()
    while [ $# -gt 0 ]; do
        if [ "$1" = --on ]; then
            SERVER_ON=${2:-}
            case $SERVER_ON in
            mysql | galera | replica) ;;
            *)
                echo "--on wants mysql, galera or replica, found '$SERVER_ON'" >&2
                return 64
                ;;
            esac
            shift
        else
            SERVER_WORDS+=("$1")
        fi
        shift
    done
}

server_start() {
    SERVER_IS_OURS=no
    case $SERVER_ON in
    "")
        mariadb_start "$@"
        return
        ;;
    mysql)
        mysql_start "$@"
        return
        ;;
    esac
    local file
    if ! file=$(scripts/cluster "$SERVER_ON" env 2>/dev/null); then
        scripts/cluster "$SERVER_ON" start "$@" >/dev/null || return 1
        SERVER_IS_OURS=yes
        file=$(scripts/cluster "$SERVER_ON" env)
    else
        # The tests count ids in steps of one, for which scripts/test starts a cluster of its own.
        echo "server: uses the $SERVER_ON cluster that runs already, with the options it was started with" >&2
    fi
    # shellcheck disable=SC1090  # the cluster writes it
    . "$file"
}

server_stop() {
    case $SERVER_ON in
    "") mariadb_stop ;;
    mysql) mysql_stop ;;
    *) [ "${SERVER_IS_OURS:-no}" != yes ] || scripts/cluster "$SERVER_ON" stop ;;
    esac
}
