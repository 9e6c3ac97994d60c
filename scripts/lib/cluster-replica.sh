# shellcheck shell=bash
# shellcheck disable=SC2154  # read_options of scripts/cluster sets the options of the start
# A primary and a replica that follows it some seconds late. The replica is read_only, or writable where
# wanted. read_only does not bind an administrator: try it with the account pushsweep.

cluster_start() {
    local read_only=ON
    [ "$writable" = no ] || read_only=OFF
    node_make primary "$pool" --server-id=1 --log-bin=binlog --binlog-format=ROW "${options[@]}"
    node_make replica "$pool" --server-id=2 --read-only="$read_only" --relay-log=relay "${options[@]}"
    node_data primary
    node_data replica
    node_start primary
    # Before the log begins to count, so that the replica may make its own.
    node_accounts primary
    node_start replica
    echo "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = $(node_port primary),
        MASTER_USER = 'pushsweep_test', MASTER_PASSWORD = '$(cat "$CLUSTER_HOME/password")',
        MASTER_USE_GTID = slave_pos, MASTER_DELAY = 0; START SLAVE" |
        mariadb --no-defaults --socket="$CLUSTER_HOME/node/replica/sock" --user=root
    replica_await
    replica_delay "$delay"
    cluster_env primary </dev/null
}

replica_value() {
    timeout 5 mariadb --no-defaults --batch --connect-timeout=3 \
        --socket="$CLUSTER_HOME/node/replica/sock" --user=root -e 'SHOW SLAVE STATUS\G' 2>/dev/null |
        sed -n "s/^ *$1: //p"
}

# Waits until the replica has what the primary has.
replica_await() {
    local position tries=300
    position=$(node_sql primary "SELECT @@gtid_binlog_pos")
    until [ "$(node_sql replica "SELECT MASTER_GTID_WAIT('$position', 1)")" = 0 ]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || cluster_fail "the replica does not follow: $(replica_value Last_Error)" \
            "$(replica_value Last_IO_Error)"
        sleep 0.1
    done
}

replica_delay() {
    [[ ${1:-} =~ ^[0-9]{1,6}$ ]] || usage "delay wants seconds, found '${1:-}'"
    node_sql replica "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY = $1; START SLAVE" ||
        cluster_fail "the replica does not answer"
}

replica_writable() {
    case ${1:-} in
    on) node_sql replica "SET GLOBAL read_only = OFF" ;;
    off) node_sql replica "SET GLOBAL read_only = ON" ;;
    *) usage "writable wants on or off, found '${1:-}'" ;;
    esac || cluster_fail "the replica does not answer"
}

cluster_start_node() { node_start "$1"; }

cluster_node_status() {
    local position
    position=$(node_sql "$1" "SELECT @@gtid_current_pos") || return 1
    if [ "$1" = primary ]; then
        echo "position $position"
    else
        echo "position $position, delay $(replica_value SQL_Delay) s, read_only" \
            "$(node_sql replica "SELECT @@read_only"), receives: $(replica_value Slave_IO_Running)," \
            "applies: $(replica_value Slave_SQL_Running) $(replica_value Last_SQL_Error)"
    fi
}
