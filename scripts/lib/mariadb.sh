# shellcheck shell=bash
# A private MariaDB for tests and benchmarks: own data folder, own port and socket, TLS on,
# removed afterwards. Source this file, then:
#
#   mariadb_start [buffer pool [option...]]  starts it and exports PUSHSWEEP_TEST_MARIADB_*; the
#                                            pool is a size such as 256M, options are mariadbd's
#   mariadb_stop                             stops it and removes everything it left
#
# Works as root and as any other user. Uses nothing of a server that the system may run.

mariadb_start() {
    local pool=${1:-256M} as_root=() tool
    [ $# -gt 0 ] && shift
    for tool in mariadbd mariadb-install-db mariadb openssl; do
        if ! command -v "$tool" >/dev/null && [ ! -x "/usr/sbin/$tool" ]; then
            echo "mariadb_start: $tool is missing; apt-get install mariadb-server openssl" >&2
            return 1
        fi
    done
    [ "$(id -u)" = 0 ] && as_root=(--user=root)
    MARIADB_HOME=$(mktemp -d "${TMPDIR:-/tmp}/pushsweep-mariadb.XXXXXX")
    local home=$MARIADB_HOME log=$MARIADB_HOME/log
    mkdir "$home/data" "$home/tls" "$home/tmp"
    mariadb_mint "$home/tls" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
    # A server that starts removes temporary tables of its temporary folder, whoever made them.
    if ! TMPDIR=$home/tmp mariadb-install-db --no-defaults "${as_root[@]}" --datadir="$home/data" \
        --auth-root-authentication-method=normal --skip-test-db >>"$log" 2>&1; then
        cat "$log" >&2
        return 1
    fi
    local try port
    for try in 1 2 3 4 5; do
        port=$((20000 + (RANDOM % 30000)))
        PATH=$PATH:/usr/sbin mariadbd --no-defaults "${as_root[@]}" \
            --datadir="$home/data" --tmpdir="$home/tmp" --pid-file="$home/pid" \
            --socket="$home/sock" --bind-address=127.0.0.1 --port="$port" \
            --ssl-ca="$home/tls/ca.pem" --ssl-cert="$home/tls/server.pem" \
            --ssl-key="$home/tls/server.key" --innodb-buffer-pool-size="$pool" \
            --innodb-log-file-size=512M --max-connections=200 --skip-name-resolve \
            --performance-schema=OFF --local-infile=OFF "$@" >>"$log" 2>&1 &
        MARIADB_PID=$!
        if mariadb_await "$home/sock" "$MARIADB_PID"; then break; fi
        MARIADB_PID=
        [ "$try" = 5 ] && { cat "$log" >&2; return 1; }
    done
    local password
    password=$(openssl rand -hex 12)
    mariadb --no-defaults --socket="$home/sock" --user=root <<SQL || return 1
CREATE USER 'pushsweep_test'@'%' IDENTIFIED BY '$password';
GRANT ALL ON *.* TO 'pushsweep_test'@'%' WITH GRANT OPTION;
SQL
    export PUSHSWEEP_TEST_MARIADB_HOST=localhost
    export PUSHSWEEP_TEST_MARIADB_PORT=$port
    export PUSHSWEEP_TEST_MARIADB_SOCKET=$home/sock
    export PUSHSWEEP_TEST_MARIADB_CA=$home/tls/ca.pem
    export PUSHSWEEP_TEST_MARIADB_USER=pushsweep_test
    export PUSHSWEEP_TEST_MARIADB_PASSWORD=$password
}

# A certificate authority, and a server certificate for this machine's own names.
mariadb_mint() {
    local folder=$1
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
        -subj "/CN=pushsweep test CA" -keyout "$folder/ca.key" -out "$folder/ca.pem" &&
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=localhost" \
            -keyout "$folder/server.key" -out "$folder/server.csr" &&
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' >"$folder/san" &&
        openssl x509 -req -in "$folder/server.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" \
            -CAcreateserial -days 30 -extfile "$folder/san" -out "$folder/server.pem"
}

# Waits until the server answers on its socket, or has ended.
mariadb_await() {
    local socket=$1 pid=$2 tries=0
    while [ $tries -lt 300 ]; do
        kill -0 "$pid" 2>/dev/null || return 1
        mariadb --no-defaults --socket="$socket" --user=root -e 'SELECT 1' >/dev/null 2>&1 && return 0
        sleep 0.1
        tries=$((tries + 1))
    done
    kill "$pid" 2>/dev/null
    return 1
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
