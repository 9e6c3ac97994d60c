# shellcheck shell=bash
# A real MySQL for tests, benchmarks and trials. Debian's stable release has none, so the package of the
# unstable one is unpacked below .build-mysql with everything it needs, C library included: apt resolves that
# against an empty list of installed packages, and the host's own packages stay as they are. Works as root and
# as any other user.
#
# Source this file after scripts/lib/mariadb.sh, whose functions of the same names it stands beside:
#
#   mysql_need                               has the programs; fails with what to do
#   mysql_start [buffer pool [option...]]    starts a server that ends with the shell, exports
#                                            PUSHSWEEP_TEST_MARIADB_* for it, and PUSHSWEEP_TEST_SERVER=mysql
#   mysql_stop                               stops it and removes everything it left
#   mysql_data FOLDER, mysql_run FOLDER TLS PORT POOL [option...]
#                                            the parts, of which scripts/cluster makes several servers

MYSQL_PARTS=$PWD/.build-mysql

# Whether it is there, or could be fetched. Says in one line why not.
mysql_need() {
    [ ! -e "$MYSQL_PARTS/complete" ] || return 0
    local mirror try=$MYSQL_PARTS/apt
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
        echo "mysql: apt-get and dpkg-deb are missing; MySQL is fetched by them" >&2
        return 1
    }
    mirror=$(mysql_mirror) || {
        echo "mysql: no mirror of Debian in /etc/apt; MySQL is fetched from there" >&2
        return 1
    }
    rm -rf "$MYSQL_PARTS"
    mkdir -p "$try/lists/partial" "$try/cache/archives/partial" "$MYSQL_PARTS/root"
    : >"$try/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$try/sources.list"
    local apt=(timeout 300 apt-get -qq -o Dir::State::Lists="$try/lists" -o Dir::State::status="$try/status"
        -o Dir::Cache="$try/cache" -o Dir::Etc::sourcelist="$try/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o Acquire::Retries=2
        # Only files are fetched: the locks of the host's apt are not needed.
        -o Debug::NoLocking=1)
    if ! { "${apt[@]}" update && "${apt[@]}" -y --download-only --no-install-recommends install mysql-server-core; } \
        >"$MYSQL_PARTS/log" 2>&1; then
        echo "mysql: cannot fetch MySQL from $mirror sid: $(grep -m 1 '^E:' "$MYSQL_PARTS/log" || tail -n 1 "$MYSQL_PARTS/log")" >&2
        return 1
    fi
    local package
    for package in "$try"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$MYSQL_PARTS/root" || return 1
    done
    rm -rf "$try"
    mysql_program >/dev/null && : >"$MYSQL_PARTS/complete"
}

# The mirror that the host itself uses. One of the two files may be missing, which is no failure.
mysql_mirror() {
    local mirrors
    mirrors=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
        sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p') || true
    grep -m 1 '/debian/*$' <<<"$mirrors"
}

# The words that run a program of the unpacked system: its own loader, with its own libraries.
mysql_program() {
    local loader libraries=("$MYSQL_PARTS"/root/usr/lib/*-linux-gnu)
    for loader in "${libraries[0]}"/ld-linux-*.so.*; do
        [ -x "$loader" ] || continue
        printf '%s\n' "$loader" --library-path "${libraries[0]}"
        return
    done
    echo "mysql: no loader below $MYSQL_PARTS; remove the folder and try again" >&2
    return 1
}

# The words that run the server, with the folders that its build has elsewhere: mysql_server FOLDER
mysql_server() {
    mysql_program || return 1
    local usr=$MYSQL_PARTS/root/usr
    printf '%s\n' "$usr/sbin/mysqld" --no-defaults --basedir="$usr" --datadir="$1/data" --tmpdir="$1/tmp" \
        --lc-messages-dir="$usr/share/mysql" --character-sets-dir="$usr/share/mysql/charsets" \
        --plugin-dir="$usr/lib/mysql/plugin" --secure-file-priv=NULL
    # mysqld refuses to run as root unless it is told to.
    mariadb_as_root
}

mysql_data() {
    mariadb_again MYSQL "$1" && return
    local words
    mkdir -p "$1/tmp"
    mapfile -t words < <(mysql_server "$1")
    "${words[@]}" --initialize-insecure
}

# MARIADB_UNDER may hold a command that runs the server, such as (setsid).
mysql_run() {
    local home=$1 tls=$2 port=$3 pool=$4 words
    shift 4
    mkdir -p "$home/tmp"
    mapfile -t words < <(mysql_server "$home")
    # A killed server leaves it, and a process that nobody has waited for yet still holds the number in it.
    rm -f "$home/sock.lock"
    ${MARIADB_UNDER[@]+"${MARIADB_UNDER[@]}"} "${words[@]}" --pid-file="$home/pid" --socket="$home/sock" \
        --bind-address=127.0.0.1 --port="$port" --mysqlx=OFF --ssl-ca="$tls/ca.pem" \
        --ssl-cert="$tls/server.pem" --ssl-key="$tls/server.key" --innodb-buffer-pool-size="$pool" \
        --max-connections=200 --skip-name-resolve --local-infile=OFF --log-bin-trust-function-creators=ON "$@" \
        </dev/null >>"$home/log" 2>&1 &
    MARIADB_PID=$!
}

mysql_start() {
    local pool=${1:-256M}
    [ $# -gt 0 ] && shift
    mariadb_needs mariadb openssl && mysql_need || return 1
    MARIADB_HOME=$(mktemp -d "${TMPDIR:-/tmp}/pushsweep-mysql.XXXXXX")
    mkdir "$MARIADB_HOME/tls"
    if ! { mariadb_mint "$MARIADB_HOME/tls" && mysql_data "$MARIADB_HOME"; } >"$MARIADB_HOME/log" 2>&1; then
        cat "$MARIADB_HOME/log" >&2
        return 1
    fi
    mariadb_keep MYSQL
    mariadb_try mysql_run "$pool" "$@" || return 1
    export PUSHSWEEP_TEST_SERVER=mysql
}

mysql_stop() {
    mariadb_stop
    unset PUSHSWEEP_TEST_SERVER
}
