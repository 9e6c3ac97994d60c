# shellcheck shell=bash
# Private MariaDB servers for tests, benchmarks and trials: own data folder, own port and socket, TLS
# on. Works as root and as any other user. Uses nothing of a server that the system may run.
#
# Source this file. One server that ends with the shell:
#
#   mariadb_start [buffer pool [option...]]  starts it and exports PUSHSWEEP_TEST_MARIADB_*; the
#                                            pool is a size such as 256M, options are mariadbd's
#   mariadb_stop                             stops it and removes everything it left
#
# The parts of it, of which scripts/cluster makes several servers:
#
#   mariadb_needs PROGRAM...                 says which programs are missing, returns 1 then
#   mariadb_mint FOLDER                      an authority and a server certificate
#   mariadb_data FOLDER                      FOLDER/data, as mariadb-install-db makes it; beside a server that
#                                            mariadb_start made, a copy of what that one began with
#   mariadb_run FOLDER TLS PORT POOL [option...]
#                                            runs a server in the background, MARIADB_PID is its id
#   mariadb_await SOCKET PID [SECONDS]       waits until it answers
#   mariadb_account SOCKET PASSWORD          the account of the tests, with all rights
#   mariadb_export PORT SOCKET CA PASSWORD   the lines of the environment, for eval or a file

mariadb_start() {
    local pool=${1:-256M}
    [ $# -gt 0 ] && shift
    mariadb_needs mariadbd mariadb-install-db mariadb openssl || return 1
    MARIADB_HOME=$(mktemp -d "${TMPDIR:-/tmp}/pushsweep-mariadb.XXXXXX")
    mkdir "$MARIADB_HOME/tls"
    if ! { mariadb_mint "$MARIADB_HOME/tls" && mariadb_data "$MARIADB_HOME"; } >"$MARIADB_HOME/log" 2>&1; then
        cat "$MARIADB_HOME/log" >&2
        return 1
    fi
    mariadb_keep MARIADB
    mariadb_try mariadb_run "$pool" "$@"
}

# Starts the server of MARIADB_HOME on a free port, makes the account of the tests and exports where it is:
# mariadb_try RUN POOL [option...], where RUN is mariadb_run or mysql_run
mariadb_try() {
    local run=$1 pool=$2 home=$MARIADB_HOME try port password
    shift 2
    for try in 1 2 3 4 5; do
        port=$((20000 + (RANDOM % 30000)))
        "$run" "$home" "$home/tls" "$port" "$pool" "$@"
        if mariadb_await "$home/sock" "$MARIADB_PID"; then break; fi
        MARIADB_PID=
        [ "$try" = 5 ] && { cat "$home/log" >&2; return 1; }
    done
    password=$(openssl rand -hex 12)
    mariadb_account "$home/sock" "$password" || return 1
    eval "$(mariadb_export "$port" "$home/sock" "$home/tls/ca.pem" "$password")"
}

mariadb_needs() {
    local tool
    for tool in "$@"; do
        if ! command -v "$tool" >/dev/null && [ ! -x "/usr/sbin/$tool" ]; then
            echo "mariadb: $tool is missing; run scripts/bootstrap --tests" >&2
            return 1
        fi
    done
}

# Runs a command an hour ago, where that can be done.
mariadb_hour_ago() {
    if command -v faketime >/dev/null; then faketime -f -1h "$@"; else "$@"; fi
}

# A certificate authority, and a server certificate for this machine's own names. They are an hour old, because the
# clock of a host may be behind.
mariadb_mint() {
    local folder=$1
    mariadb_hour_ago openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
        -subj "/CN=pushsweep test CA" -keyout "$folder/ca.key" -out "$folder/ca.pem" &&
        mariadb_hour_ago openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=localhost" \
            -keyout "$folder/server.key" -out "$folder/server.csr" &&
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' >"$folder/san" &&
        mariadb_hour_ago openssl x509 -req -in "$folder/server.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" \
            -CAcreateserial -days 30 -extfile "$folder/san" -out "$folder/server.pem"
}

# mariadbd refuses to run as root unless it is told to.
mariadb_as_root() { [ "$(id -u)" != 0 ] || echo --user=root; }

# Keeps a copy of the data folder that was just made, for the servers that tests start beside this one: to make
# one anew takes seconds. mariadb_keep MARIADB|MYSQL
mariadb_keep() {
    local -n kept=PUSHSWEEP_TEST_MARIADB_DATA_OF_$1
    [ -z "${kept:-}" ] || return 0
    # A folder of MySQL names its server, and two of one name do not replicate.
    cp -a "$MARIADB_HOME/data" "$MARIADB_HOME/kept" && rm -f "$MARIADB_HOME/kept/auto.cnf" || return 0
    export "PUSHSWEEP_TEST_MARIADB_DATA_OF_$1=$MARIADB_HOME/kept"
}

# Makes FOLDER/data from the copy that mariadb_keep has; fails where there is none: mariadb_again KIND FOLDER
mariadb_again() {
    local -n kept=PUSHSWEEP_TEST_MARIADB_DATA_OF_$1
    [ -d "${kept:-}" ] && mkdir -p "$2/tmp" && { cp -a "$kept" "$2/data" || { rm -rf "$2/data"; return 1; }; }
}

mariadb_data() {
    mariadb_again MARIADB "$1" && return
    mkdir -p "$1/tmp"
    # A server that starts removes temporary tables of its temporary folder, whoever made them.
    # shellcheck disable=SC2046  # one word or none
    TMPDIR=$1/tmp mariadb-install-db --no-defaults $(mariadb_as_root) --datadir="$1/data" \
        --auth-root-authentication-method=normal --skip-test-db
}

# MARIADB_UNDER may hold a command that runs the server, such as (setsid).
mariadb_run() {
    local home=$1 tls=$2 port=$3 pool=$4
    shift 4
    mkdir -p "$home/tmp"
    # shellcheck disable=SC2046  # one word or none
    PATH=$PATH:/usr/sbin ${MARIADB_UNDER[@]+"${MARIADB_UNDER[@]}"} mariadbd --no-defaults \
        $(mariadb_as_root) --datadir="$home/data" --tmpdir="$home/tmp" --pid-file="$home/pid" \
        --socket="$home/sock" --bind-address=127.0.0.1 --port="$port" \
        --ssl-ca="$tls/ca.pem" --ssl-cert="$tls/server.pem" --ssl-key="$tls/server.key" \
        --innodb-buffer-pool-size="$pool" --innodb-log-file-size=512M --max-connections=200 \
        --skip-name-resolve --performance-schema=OFF --local-infile=OFF "$@" \
        </dev/null >>"$home/log" 2>&1 &
    MARIADB_PID=$!
}

# Waits until the server answers on its socket, or has ended.
mariadb_await() {
    local socket=$1 pid=$2 tries=$((${3:-30} * 10))
    while [ $tries -gt 0 ]; do
        kill -0 "$pid" 2>/dev/null || return 1
        mariadb --no-defaults --socket="$socket" --user=root -e 'SELECT 1' >/dev/null 2>&1 && return 0
        sleep 0.1
        tries=$((tries - 1))
    done
    kill "$pid" 2>/dev/null
    return 1
}

mariadb_account() {
    mariadb --no-defaults --socket="$1" --user=root <<SQL
CREATE USER 'pushsweep_test'@'%' IDENTIFIED BY '$2';
GRANT ALL ON *.* TO 'pushsweep_test'@'%' WITH GRANT OPTION;
SQL
}

mariadb_export() {
    cat <<LINES
export PUSHSWEEP_TEST_MARIADB_HOST=localhost
export PUSHSWEEP_TEST_MARIADB_PORT=$1
export PUSHSWEEP_TEST_MARIADB_SOCKET=$(printf %q "$2")
export PUSHSWEEP_TEST_MARIADB_CA=$(printf %q "$3")
export PUSHSWEEP_TEST_MARIADB_USER=pushsweep_test
export PUSHSWEEP_TEST_MARIADB_PASSWORD=$4
LINES
}

mariadb_stop() {
    if [ -n "${MARIADB_PID:-}" ]; then
        kill "$MARIADB_PID" 2>/dev/null
        wait "$MARIADB_PID" 2>/dev/null
        MARIADB_PID=
    fi
    [ -n "${MARIADB_HOME:-}" ] && rm -rf "$MARIADB_HOME"
    MARIADB_HOME=
    unset "${!PUSHSWEEP_TEST_MARIADB_@}"
}
