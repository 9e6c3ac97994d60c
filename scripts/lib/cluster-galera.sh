# shellcheck shell=bash
# shellcheck disable=SC2154  # read_options of scripts/cluster sets the options of the start
# Galera: N servers, each with all the data, that agree on every commit. A part of the nodes which is no
# majority refuses statements with 1047. HAProxy, where wanted, sends everybody to one node, and to the next
# one when that is down or no part of the majority.

cluster_start() {
    local parts=(galera-4 mariadb-server rsync libpopt0 libxxhash0) name provider group=() ports=() peers
    [ "$haproxy" = no ] || parts+=(haproxy liblua5.3-0 libopentracing1 libopentracing-c-wrapper0)
    parts_need "${parts[@]}"
    provider=$(parts_file /usr/lib/galera/libgalera_smm.so /usr/lib/libgalera_smm.so)
    for name in $(seq "$nodes"); do group+=("$(cluster_port)"); done
    peers=$(printf ',127.0.0.1:%s' "${group[@]}")
    for name in $(seq "$nodes"); do
        ports=("$(cluster_port)" "$(cluster_port)")
        node_make "$name" "$pool" --wsrep-on=ON --wsrep-provider="$provider" --binlog-format=ROW \
            --innodb-autoinc-lock-mode=2 --wsrep-cluster-name=pushsweep --wsrep-node-name="node$name" \
            --wsrep-cluster-address="gcomm://${peers#,}" --wsrep-sst-method=rsync \
            --wsrep-node-address="127.0.0.1:${group[name - 1]}" \
            --wsrep-sst-receive-address="127.0.0.1:${ports[0]}" --wsrep-slave-threads=2 \
            --wsrep-provider-options="gcache.size=32M;base_port=${group[name - 1]};gmcast.listen_addr=tcp://127.0.0.1:${group[name - 1]};ist.recv_addr=127.0.0.1:${ports[1]}" \
            "${options[@]}"
    done
    galera_rsync
    node_data 1
    node_start 1 --wsrep-new-cluster
    galera_await_sync 1
    node_accounts 1
    # The others fetch everything from the first.
    for name in $(seq 2 "$nodes"); do
        mkdir "$CLUSTER_HOME/node/$name/data"
        node_start "$name"
        galera_await_sync "$name"
    done
    [ "$haproxy" = no ] || haproxy_start
    {
        printf 'export PUSHSWEEP_TEST_CLUSTER_PROVIDER=%q\n' "$provider"
        [ "$haproxy" = no ] ||
            echo "export PUSHSWEEP_TEST_CLUSTER_PROXY_PORT=$(cat "$CLUSTER_HOME/haproxy/port")"
    } | cluster_env 1
}

# A state transfer runs a daemon of rsync, which as root changes to a user that may not read our folders.
# So root's nodes find a program of this name first that tells the daemon to stay root.
galera_rsync() {
    [ "$(id -u)" = 0 ] || return 0
    local real
    real=$(parts_file /usr/bin/rsync)
    mkdir "$CLUSTER_HOME/bin"
    cat >"$CLUSTER_HOME/bin/rsync" <<PROGRAM
#!/bin/bash
for ((word = 1; word < \$#; word++)); do
    [ "\${!word}" != --config ] || { word=\$((word + 1)) && sed -i '1i uid = 0\ngid = 0' "\${!word}"; }
done
exec "$real" "\$@"
PROGRAM
    chmod +x "$CLUSTER_HOME/bin/rsync"
}

# What a node says about itself; empty where it does not answer.
galera_value() {
    local row
    row=$(node_sql "$1" "SHOW GLOBAL STATUS LIKE 'wsrep_$2'") || return 0
    cut -f 2 <<<"$row"
}

galera_await_sync() {
    local tries=600
    until [ "$(galera_value "$1" local_state_comment)" = Synced ]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || cluster_fail "node $1 runs, but does not catch up: state" \
            "$(galera_value "$1" local_state_comment), see $CLUSTER_HOME/node/$1/log"
        sleep 0.1
    done
}

cluster_node_status() {
    local part
    part=$(galera_value "$1" cluster_status)
    [ -n "$part" ] || return 1
    echo "$part, $(galera_value "$1" cluster_size) nodes, $(galera_value "$1" local_state_comment)," \
        "position $(galera_value "$1" last_committed)"
}

# The first node that takes statements; fails where there is none.
galera_primary() {
    local name
    for name in $(node_names); do
        if node_process "$name" >/dev/null && [ "$(galera_value "$name" cluster_status)" = Primary ]; then
            echo "$name"
            return
        fi
    done
    return 1
}

# Waits for a node that takes statements, as long as one runs: after the loss of a node the others decide for some
# seconds who is left.
galera_await_primary() {
    local name end=$((SECONDS + 30)) told=no
    until galera_primary >/dev/null; do
        for name in $(node_names); do node_process "$name" >/dev/null && break; done || return 1
        [ $told = yes ] || echo "cluster: waiting up to 30 s for a majority of the nodes" >&2
        told=yes
        [ $SECONDS -lt $end ] || return 1
        sleep 0.1
    done
}

cluster_start_node() {
    ! node_process "$1" >/dev/null || cluster_fail "node $1 runs already"
    if ! galera_await_primary; then
        cluster_fail "no node takes statements, so node $1 has nobody to join. Start the cluster from the" \
            "node that knows most: scripts/cluster galera node N bootstrap, then start the others." \
            "bootstrap compares their positions and refuses one that is behind"
    fi
    # From its own position on it needs only the latest changes, else everything.
    node_start "$1" --wsrep-start-position="$(galera_recovered "$1")"
    galera_await_sync "$1"
}

cluster_node_action() {
    case $2 in
    isolate) galera_isolate "$1" 1 ;;
    rejoin)
        galera_isolate "$1" 0
        galera_await_sync "$1"
        ;;
    bootstrap) galera_bootstrap "$1" ;;
    *) return 1 ;;
    esac
}

# Cuts the node off from the others, not from its clients.
galera_isolate() {
    node_sql "$1" "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=$2'" ||
        cluster_fail "node $1 does not answer"
}

# The history and the last change of a node that is down, as HISTORY:NUMBER. The server reads its own files,
# writes the position into its log and ends.
galera_recovered() {
    # A second server on the same data would end at once, and its process would stand for the first one's.
    ! node_process "$1" >/dev/null || cluster_fail "node $1 runs already"
    node_run "$1" --wsrep-recover
    node_await_end "$1" "$MARIADB_PID"
    sed -n 's/.*Recovered position: *\([-0-9a-f]*:-\{0,1\}[0-9]*\).*/\1/p' "$CLUSTER_HOME/node/$1/log" |
        tail -n 1
}

# The number of the last change that a node has, whether it runs or not.
galera_position() {
    if node_process "$1" >/dev/null; then
        galera_value "$1" last_committed
    else
        galera_recovered "$1" | sed 's/.*://'
    fi
}

# Begins a cluster anew with one node: after all ended, or where the rest is not the majority.
galera_bootstrap() {
    local name own other file=$CLUSTER_HOME/node/$1/data/grastate.dat primary
    ! primary=$(galera_primary) ||
        cluster_fail "node $primary takes statements; a second beginning would split the cluster"
    own=$(galera_position "$1")
    echo "cluster: node $1 has position ${own:-none}" >&2
    for name in $(node_names); do
        [ "$name" != "$1" ] || continue
        other=$(galera_position "$name")
        echo "cluster: node $name has position ${other:-none}" >&2
        [ "${other:--1}" -le "${own:--1}" ] ||
            cluster_fail "node $name knows more than node $1; run scripts/cluster galera node $name bootstrap"
    done
    if node_process "$1" >/dev/null; then
        node_sql "$1" "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'"
    else
        sed -i 's/^safe_to_bootstrap:.*/safe_to_bootstrap: 1/' "$file"
        node_start "$1" --wsrep-new-cluster --wsrep-start-position="$(galera_recovered "$1")"
    fi
    galera_await_sync "$1"
}

haproxy_start() {
    local folder=$CLUSTER_HOME/haproxy name port environment=() role=""
    mkdir "$folder"
    port=$(cluster_port)
    echo "$port" >"$folder/port"
    # The check asks the node itself: one outside the majority still accepts connections.
    node_sql 1 "CREATE USER 'haproxy_check'@'127.0.0.1'"
    cat >"$folder/check" <<'CHECK'
#!/bin/sh
[ "$(timeout 2 mariadb --no-defaults --protocol=tcp --host=127.0.0.1 --port="$4" --user=haproxy_check \
    --connect-timeout=1 --skip-column-names --batch -e "SHOW STATUS LIKE 'wsrep_ready'" | cut -f 2)" = ON ]
CHECK
    chmod +x "$folder/check"
    {
        cat <<CONFIG
global
    external-check
    insecure-fork-wanted
defaults
    mode tcp
    timeout connect 2s
    timeout client 1h
    timeout server 1h
listen galera
    bind 127.0.0.1:$port
    option external-check
    external-check path "$PATH"
    external-check command $folder/check
    default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
CONFIG
        for name in $(node_names); do
            echo "    server node$name 127.0.0.1:$(node_port "$name") check$role"
            role=" backup"
        done
    } >"$folder/haproxy.cfg"
    mapfile -t environment < <(parts_environment)
    setsid env "${environment[@]}" haproxy -db -f "$folder/haproxy.cfg" </dev/null >"$folder/log" 2>&1 &
    echo $! >"$folder/process"
    local tries=100
    until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || cluster_fail "HAProxy does not answer: $(cat "$folder/log")"
        sleep 0.1
    done
}

haproxy_process() {
    local pid
    pid=$(cat "$CLUSTER_HOME/haproxy/process" 2>/dev/null) || return 1
    [ -r "/proc/$pid/cmdline" ] || return 1
    { tr '\0' '\n' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -qxF "$CLUSTER_HOME/haproxy/haproxy.cfg" || return 1
    echo "$pid"
}

cluster_extra_status() {
    local pid
    [ -d "$CLUSTER_HOME/haproxy" ] || return 0
    if pid=$(haproxy_process); then
        echo "galera haproxy: running, port $(cat "$CLUSTER_HOME/haproxy/port"), process $pid"
    else
        echo "galera haproxy: down"
    fi
}

cluster_extra_stop() {
    local pid
    ! pid=$(haproxy_process) || kill "$pid"
}
