# shellcheck shell=bash
# The nodes of a private cluster: folders, processes, accounts, and the file that says where they are.
# Each kind of cluster adds, in scripts/lib/cluster-KIND.sh:
#
#   cluster_start              makes and starts the nodes (reads the variables of read_options)
#   cluster_start_node NAME    starts a node that is down
#   cluster_node_status NAME   one line about a node that answers
#   cluster_node_action NAME ACTION   an action of its own; 1 for an unknown one
#   CLUSTER_SERVER             mariadb or mysql, the prefix of the functions that run its servers
#
# State, for each user: ${TMPDIR:-/tmp}/pushsweep-cluster-UID/KIND, with tls, password, env, and for each
# node node/NAME with data, sock, log, port, pool, options (one a line) and process.

cluster_fail() {
    echo "cluster: $*" >&2
    exit 1
}

cluster_open() {
    CLUSTER_ROOT=${TMPDIR:-/tmp}/pushsweep-cluster-$(id -u)
    CLUSTER_ROOT=${CLUSTER_ROOT//\/\///}
    CLUSTER_HOME=$CLUSTER_ROOT/$CLUSTER_KIND
    # Only a folder of our own may say which processes are ours.
    if [ -L "$CLUSTER_ROOT" ] || { [ -e "$CLUSTER_ROOT" ] && [ ! -O "$CLUSTER_ROOT" ]; }; then
        cluster_fail "$CLUSTER_ROOT belongs to someone else; set TMPDIR to a folder of your own"
    fi
    # The path of a socket has at most 107 bytes.
    [ ${#CLUSTER_HOME} -le 80 ] || cluster_fail "$CLUSTER_HOME is too long for a socket; set TMPDIR"
}

cluster_exists() { [ -d "$CLUSTER_HOME" ]; }

cluster_claim() {
    mkdir -p "$CLUSTER_ROOT"
    mkdir "$CLUSTER_HOME" 2>/dev/null || cluster_fail "a $CLUSTER_KIND cluster is there already in" \
        "$CLUSTER_HOME; see scripts/cluster $CLUSTER_KIND status, end it with stop"
    mkdir "$CLUSTER_HOME/node" "$CLUSTER_HOME/tls"
    mariadb_mint "$CLUSTER_HOME/tls" >"$CLUSTER_HOME/log" 2>&1 ||
        cluster_fail "openssl made no certificates: $(cat "$CLUSTER_HOME/log")"
    openssl rand -hex 12 >"$CLUSTER_HOME/password"
}

# A free port below those that systems give to clients.
cluster_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue
        # Not one that another node is about to take.
        mkdir -p "$CLUSTER_HOME/ports"
        mkdir "$CLUSTER_HOME/ports/$port" 2>/dev/null && echo "$port" && return
    done
}

node_names() { ls "$CLUSTER_HOME/node"; }
node_port() { cat "$CLUSTER_HOME/node/$1/port"; }

# Prepares a node: node_make NAME POOL [option...]
node_make() {
    local folder=$CLUSTER_HOME/node/$1
    mkdir "$folder"
    cluster_port >"$folder/port"
    echo "$2" >"$folder/pool"
    shift 2
    [ $# = 0 ] || printf '%s\n' "$@" >"$folder/options"
}

# The data of a new server; for all nodes but the first a copy of the first one's, not yet started.
node_data() {
    local folder=$CLUSTER_HOME/node/$1 fresh=$CLUSTER_HOME/fresh
    if [ ! -d "$fresh" ]; then
        mkdir "$fresh"
        "${CLUSTER_SERVER}_data" "$fresh" >"$fresh/log" 2>&1 ||
            cluster_fail "the server made no data: $(cat "$fresh/log")"
    fi
    cp -a "$fresh/data" "$folder/data"
}

# The process of a node; fails where there is none. The number alone could be another process's by now.
node_process() {
    local pid folder=$CLUSTER_HOME/node/$1
    pid=$(cat "$folder/process" 2>/dev/null) || return 1
    [ -r "/proc/$pid/cmdline" ] || return 1
    { tr '\0' '\n' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -qxF -- "--datadir=$folder/data" || return 1
    echo "$pid"
}

# Starts a node's server, with more options for this once, and does not wait.
node_run() {
    local name=$1 folder=$CLUSTER_HOME/node/$1 options=() environment=()
    shift
    [ ! -e "$folder/options" ] || mapfile -t options <"$folder/options"
    mapfile -t environment < <(parts_environment)
    # A session of its own holds the server and what it starts, and outlives this script.
    # shellcheck disable=SC2034  # mariadb_run reads it
    MARIADB_UNDER=(setsid env "${environment[@]}")
    [ "$CLUSTER_SERVER" = mysql ] || options=(--innodb-log-file-size=96M "${options[@]}")
    "${CLUSTER_SERVER}_run" "$folder" "$CLUSTER_HOME/tls" "$(node_port "$name")" "$(cat "$folder/pool")" \
        "${options[@]}" "$@"
    # The shell is not to speak of its end.
    disown "$MARIADB_PID"
    echo "$MARIADB_PID" >"$folder/process"
}

# Starts a node's server and waits until it answers.
node_start() {
    local name=$1
    ! node_process "$name" >/dev/null || cluster_fail "node $name runs already"
    node_run "$@"
    mariadb_await "$CLUSTER_HOME/node/$name/sock" "$MARIADB_PID" 120 ||
        cluster_fail "node $name did not start; its log says:
$(grep -E 'ERROR' "$CLUSTER_HOME/node/$name/log" | tail -n 20)
$(tail -n 3 "$CLUSTER_HOME/node/$name/log")"
}

# Sends a signal to a node's server and whatever it started, such as a state transfer.
node_signal() {
    local pid each
    pid=$(node_process "$1") || cluster_fail "node $1 does not run"
    for each in $(ps -o pid= -s "$pid"); do
        kill -s "$2" "$each" 2>/dev/null || true
    done
    [ "$2" != KILL ] || node_await_end "$1" "$pid"
}

# Lets a node's server end by itself, for at most a minute.
node_stop() {
    local pid
    pid=$(node_process "$1") || cluster_fail "node $1 does not run"
    kill -s CONT "$pid" && kill -s TERM "$pid"
    node_await_end "$1" "$pid"
}

node_await_end() {
    local tries=600
    while [ -d "/proc/$2" ] && ! grep -q '^State:.Z' "/proc/$2/status" 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || cluster_fail "node $1 (process $2) does not end"
        sleep 0.1
    done
}

# Runs a statement on a node as its administrator; fails after 5 seconds.
node_sql() {
    timeout 5 mariadb --no-defaults --skip-column-names --batch --connect-timeout=3 \
        --socket="$CLUSTER_HOME/node/$1/sock" --user=root -e "$2" 2>&1
}

# The accounts, and a database for trials: pushsweep_test may do everything; pushsweep has all rights on
# all databases but none of an administrator, as an application has.
node_accounts() {
    local password
    password=$(cat "$CLUSTER_HOME/password")
    mariadb_account "$CLUSTER_HOME/node/$1/sock" "$password"
    mariadb --no-defaults --socket="$CLUSTER_HOME/node/$1/sock" --user=root <<SQL
CREATE USER 'pushsweep'@'%' IDENTIFIED BY '$password';
GRANT ALL ON \`%\`.* TO 'pushsweep'@'%';
CREATE DATABASE push CHARACTER SET utf8mb4;
SQL
}

# Writes the file of the environment: cluster_env NODE, which the tests use by default. Further lines come
# on stdin.
cluster_env() {
    local name upper password
    password=$(cat "$CLUSTER_HOME/password")
    {
        mariadb_export "$(node_port "$1")" "$CLUSTER_HOME/node/$1/sock" "$CLUSTER_HOME/tls/ca.pem" "$password"
        echo "export PUSHSWEEP_TEST_CLUSTER_KIND=$CLUSTER_KIND"
        printf 'export PUSHSWEEP_TEST_CLUSTER_NODES=%q\n' "$(node_names | tr '\n' ' ' | sed 's/ $//')"
        echo "export PUSHSWEEP_TEST_CLUSTER_APP_USER=pushsweep"
        printf 'export PUSHSWEEP_TEST_CLUSTER_PASSWORD_FILE=%q\n' "$CLUSTER_HOME/password"
        for name in $(node_names); do
            upper=${name^^}
            echo "export PUSHSWEEP_TEST_CLUSTER_${upper}_PORT=$(node_port "$name")"
            printf 'export PUSHSWEEP_TEST_CLUSTER_%s_SOCKET=%q\n' "$upper" "$CLUSTER_HOME/node/$name/sock"
        done
        cat
    } >"$CLUSTER_HOME/env"
}

cluster_status() {
    local name pid facts
    for name in $(node_names); do
        facts="port $(node_port "$name")"
        if ! pid=$(node_process "$name"); then
            facts="down, $facts"
        elif grep -q '^State:.T' "/proc/$pid/status"; then
            facts="paused, $facts, process $pid"
        else
            facts="running, $facts, process $pid: $(cluster_node_status "$name" || echo "no answer")"
        fi
        echo "$CLUSTER_KIND $name: $facts"
    done
    cluster_extra_status
}

# A kind with more than nodes says so here.
cluster_extra_status() { :; }
cluster_extra_stop() { :; }
cluster_node_action() { return 1; }

cluster_stop() {
    local name pid
    if ! cluster_exists; then
        echo "cluster: no $CLUSTER_KIND cluster is there" >&2
        return
    fi
    cluster_extra_stop
    for name in $(node_names); do
        # The data goes away, so no server needs to save it.
        ! pid=$(node_process "$name") || node_signal "$name" KILL
    done
    rm -rf "$CLUSTER_HOME"
    rmdir "$CLUSTER_ROOT" 2>/dev/null || true
    echo "cluster: the $CLUSTER_KIND cluster is stopped and its data removed" >&2
}

cluster_abandon() {
    local status=$?
    set +e
    cluster_stop
    exit "$status"
}
