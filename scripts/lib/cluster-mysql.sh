# shellcheck shell=bash
# shellcheck disable=SC2154  # read_options of scripts/cluster sets the options of the start
# MySQL's Group Replication with a single primary: three servers, each with all the data. One takes changes, the
# others are super_read_only. Five seconds after the loss of the primary the rest elects another one (ten with the
# server's own group_replication_member_expel_timeout). A node that comes back joins the group that there is;
# where there is none, `bootstrap` begins it anew.

# shellcheck disable=SC2034  # cluster-nodes.sh reads it
CLUSTER_SERVER=mysql

cluster_start() {
    local name group=() seeds
    for name in $(seq "$nodes"); do group+=("$(cluster_port)"); done
    seeds=$(printf ',127.0.0.1:%s' "${group[@]}")
    for name in $(seq "$nodes"); do
        node_make "$name" "$pool" --server-id="$name" --gtid-mode=ON --enforce-gtid-consistency=ON --log-bin=bin \
            --plugin-load-add=group_replication.so --group-replication-start-on-boot=OFF \
            --group-replication-group-name=5e1f7a2c-0000-4000-8000-000000000001 \
            --group-replication-local-address="127.0.0.1:${group[name - 1]}" \
            --group-replication-group-seeds="${seeds#,}" --group-replication-single-primary-mode=ON \
            --group-replication-member-expel-timeout=0 --group-replication-recovery-get-public-key=ON \
            --group-replication-exit-state-action=READ_ONLY \
            --report-host=127.0.0.1 "${options[@]}"
        node_data "$name"
        # A copy has the name of the server that it was copied from.
        rm -f "$CLUSTER_HOME/node/$name/data/auto.cnf"
        node_start "$name"
        mysql_recovery "$name"
    done
    mysql_bootstrap 1
    node_accounts 1
    # What `pushsweep check --grants` prints besides on a member of a group.
    node_sql 1 "GRANT SELECT ON performance_schema.replication_group_members TO 'pushsweep'@'%'" ||
        cluster_fail "node 1 takes no grant"
    for name in $(seq 2 "$nodes"); do mysql_join "$name"; done
    cluster_env 1 </dev/null
}

# The account by which a node fetches what it missed. It is made on each node and written into no log, so that
# no node has changes that the group does not know.
mysql_recovery() {
    local password
    password=$(cat "$CLUSTER_HOME/password")
    mariadb --no-defaults --socket="$CLUSTER_HOME/node/$1/sock" --user=root <<SQL || cluster_fail "node $1 takes no account"
SET SQL_LOG_BIN = 0;
CREATE USER 'recovery'@'%' IDENTIFIED BY '$password';
GRANT REPLICATION SLAVE, CONNECTION_ADMIN, BACKUP_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO 'recovery'@'%';
SET SQL_LOG_BIN = 1;
CHANGE REPLICATION SOURCE TO SOURCE_USER = 'recovery', SOURCE_PASSWORD = '$password'
    FOR CHANNEL 'group_replication_recovery';
SQL
}

# What a node says about itself in the group: MEMBER_STATE or MEMBER_ROLE.
mysql_member() {
    node_sql "$1" "SELECT $2 FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@server_uuid"
}

mysql_await_online() {
    local tries=600
    until [ "$(mysql_member "$1" MEMBER_STATE)" = ONLINE ]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || cluster_fail "node $1 runs, but does not join: $(mysql_member "$1" MEMBER_STATE), see" \
            "$CLUSTER_HOME/node/$1/log"
        sleep 0.1
    done
}

# The node that takes changes; fails where there is none.
mysql_primary() {
    local name
    for name in $(node_names); do
        if node_process "$name" >/dev/null && [ "$(mysql_member "$name" MEMBER_ROLE)" = PRIMARY ] &&
            [ "$(node_sql "$name" 'SELECT @@super_read_only')" = 0 ]; then
            echo "$name"
            return
        fi
    done
    return 1
}

mysql_await_primary() {
    local tries=300
    until mysql_primary >/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
}

mysql_start_replication() {
    timeout 60 mariadb --no-defaults --socket="$CLUSTER_HOME/node/$1/sock" --user=root -e "START GROUP_REPLICATION" 2>&1
}

mysql_join() {
    mysql_await_primary || cluster_fail "no node takes changes, so node $1 has nobody to join; begin the group" \
        "anew with the node that knows most: scripts/cluster mysql node N bootstrap"
    # A node that was not heard for a while is let in again when the group has given up the old one. The
    # statement returns when the node has joined, which takes some seconds.
    local tries=10 said
    until said=$(mysql_start_replication "$1") || [[ $said == *"ERROR 3093 "* ]]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || cluster_fail "node $1 does not join: $said"
        sleep 1
    done
    mysql_await_online "$1"
}

cluster_start_node() {
    node_start "$1"
    mysql_join "$1"
}

mysql_bootstrap() {
    ! mysql_primary >/dev/null || cluster_fail "a node takes changes; a second beginning would split the group"
    node_process "$1" >/dev/null || node_start "$1"
    mariadb --no-defaults --socket="$CLUSTER_HOME/node/$1/sock" --user=root <<SQL || cluster_fail "node $1 begins no group"
SET GLOBAL group_replication_bootstrap_group = ON;
START GROUP_REPLICATION;
SET GLOBAL group_replication_bootstrap_group = OFF;
SQL
    mysql_await_online "$1"
}

cluster_node_status() {
    local state
    state=$(mysql_member "$1" "CONCAT(MEMBER_STATE, ', ', MEMBER_ROLE)") || return 1
    echo "$state, executed $(node_sql "$1" 'SELECT @@gtid_executed' | tr -d '\n')"
}

cluster_node_action() {
    case $2 in
    bootstrap) mysql_bootstrap "$1" ;;
    # After a pause the group may have given the node up.
    rejoin)
        [ "$(mysql_member "$1" MEMBER_STATE)" = ONLINE ] || {
            node_sql "$1" "STOP GROUP_REPLICATION" >/dev/null || true
            mysql_join "$1"
        }
        ;;
    *) return 1 ;;
    esac
}
