# shellcheck shell=bash
# shellcheck disable=SC2154  # read_options of scripts/cluster sets the options of the start
# Spider: a server without token rows of its own, which sends every statement on to shards. The tables that
# Pushsweep keeps stay local on it (InnoDB); only the token table is spread, by `spread`. The nodes are
# `spider` and `shard1` to `shard3`. With --links each shard is behind a link that can be cut: `isolate` of a
# shard cuts it off from the Spider node, of the Spider node from all shards.

cluster_start() {
    local name port spider=() plugin
    parts_need mariadb-plugin-spider
    plugin=$(parts_file /usr/lib/mysql/plugin/ha_spider.so)
    node_make spider "$pool" --plugin-dir="$(dirname "$plugin")" --plugin-load-add=ha_spider \
        --default-storage-engine=InnoDB "${options[@]}"
    for name in $(seq "$shards"); do
        node_make "shard$name" "$pool" "${options[@]}"
    done
    for name in $(node_names); do
        node_data "$name"
        node_start "$name"
        node_accounts "$name"
    done
    for name in $(node_names); do
        [ "$name" != spider ] || continue
        port=$(node_port "$name")
        [ "$links" = no ] || port=$(spider_link "$name" "$port")
        spider+=("CREATE SERVER $name FOREIGN DATA WRAPPER mysql OPTIONS (HOST '127.0.0.1', DATABASE 'push',
            PORT $port, USER 'pushsweep_test', PASSWORD '$(cat "$CLUSTER_HOME/password")');")
    done
    # On stdin, since a word of a command can be seen by everybody.
    echo "${spider[*]}" | node_run_sql spider
    node_run_sql spider push <<SQL
CREATE TABLE active_users (
  id BIGINT NOT NULL AUTO_INCREMENT,
  user_id VARCHAR(64) NOT NULL,
  app_id VARCHAR(64) NOT NULL,
  environment VARCHAR(16) NOT NULL DEFAULT 'production',
  device_token VARBINARY(100) NOT NULL,
  registered_at DATETIME(3) NOT NULL,
  invalidated_at DATETIME(3) NULL,
  invalid_reason VARCHAR(32) NULL,
  PRIMARY KEY (id, device_token),
  UNIQUE KEY device (device_token, app_id, environment),
  KEY user (user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
SQL
    spider_spread push.active_users device_token
    cluster_env spider </dev/null
}

cluster_start_node() { node_start "$1"; }

# Starts the link to a shard and prints its port: spider_link SHARD PORT-OF-THE-SHARD
spider_link() {
    local folder=$CLUSTER_HOME/link/$1 port tries=100
    mkdir -p "$folder"
    port=$(cluster_port)
    # The shell that asks for the port waits for everybody who may still write to it.
    setsid python3 -B scripts/lib/cluster_link.py "$port" "$2" </dev/null >"$folder/log" 2>&1 &
    echo $! >"$folder/process"
    echo "cluster_link.py $port $2" >"$folder/words"
    until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || cluster_fail "the link to $1 does not answer: $(cat "$folder/log")"
        sleep 0.1
    done
    echo "$port"
}

link_names() { ls "$CLUSTER_HOME/link"; }

link_process() {
    local pid
    pid=$(cat "$CLUSTER_HOME/link/$1/process" 2>/dev/null) || return 1
    { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -qF "$(cat "$CLUSTER_HOME/link/$1/words") " || return 1
    echo "$pid"
}

cluster_node_action() {
    local signal pid each shards=("$1")
    case $2 in isolate) signal=USR1 ;; rejoin) signal=USR2 ;; *) return 1 ;; esac
    [ -d "$CLUSTER_HOME/link" ] || cluster_fail "the shards have no links to cut; start the cluster with --links"
    [ "$1" != spider ] || mapfile -t shards < <(link_names)
    for each in "${shards[@]}"; do
        pid=$(link_process "$each") || cluster_fail "the link to $each is down"
        kill -s "$signal" "$pid"
    done
}

cluster_extra_status() {
    local name pid
    [ -d "$CLUSTER_HOME/link" ] || return 0
    for name in $(link_names); do
        if pid=$(link_process "$name"); then
            echo "spider link to $name: running, port $(cut -d ' ' -f 2 "$CLUSTER_HOME/link/$name/words"), process $pid"
        else
            echo "spider link to $name: down"
        fi
    done
}

cluster_extra_stop() {
    local name pid
    [ -d "$CLUSTER_HOME/link" ] || return 0
    for name in $(link_names); do
        ! pid=$(link_process "$name") || kill "$pid"
    done
}

cluster_node_status() {
    local version
    version=$(node_sql "$1" "SELECT VERSION()") || return 1
    echo "$version, $(node_sql "$1" "SELECT COUNT(*) FROM information_schema.tables
        WHERE table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')") tables," \
        "$(node_sql "$1" "XA RECOVER" | wc -l) prepared transactions"
}

# Runs statements from stdin as the administrator: node_run_sql NODE [DATABASE]
node_run_sql() {
    mariadb --no-defaults --skip-column-names --batch --raw \
        --socket="$CLUSTER_HOME/node/$1/sock" --user=root ${2:+"$2"}
}

# Spreads a table of the Spider node over the shards by the values of a column, with its rows: `key` by a
# hash of the value, `range` by the value itself, so that tokens which follow each other are on one shard. A
# unique key has to contain the column: the primary key gets it as its last one, another unique key without
# it is refused, since no shard can see the other shards' rows.
spider_spread() {
    local database=${1%%.*} table=${1#*.} column=${2:-} by=${3:-key} names create form shard parts="" bad bound=""
    [[ ${1:-} =~ ^[A-Za-z0-9_]+\.[A-Za-z0-9_]+$ && $column =~ ^[A-Za-z0-9_]+$ ]] ||
        usage "spread wants DATABASE.TABLE and a COLUMN, found '${1:-}' and '$column'"
    [[ $by =~ ^(key|range)$ ]] || usage "spread wants key or range after the column, found '$by'"
    [[ ${4:-3} =~ ^[1-3]$ ]] || usage "spread wants 1, 2 or 3 shards, found '$4'"
    mapfile -t names < <(node_names | grep -v '^spider$')
    names=("${names[@]:0:${4:-3}}")
    create=$(echo "SHOW CREATE TABLE \`$table\`" | node_run_sql spider "$database" | sed '1s/^[^\t]*\t//')
    case $create in
    *ENGINE=InnoDB*) ;;
    *) cluster_fail "table $1 is not InnoDB, so it is spread already or cannot be" ;;
    esac
    grep -q "^  \`$column\` " <<<"$create" || cluster_fail "table $1 has no column $column"
    form=$(sed "/^  PRIMARY KEY/{/\`$column\`/!s/)/,\`$column\`)/;}; s/ AUTO_INCREMENT=[0-9]*//" <<<"$create")
    bad=$(grep '^  UNIQUE KEY' <<<"$form" | grep -v "\`$column\`" || true)
    [ -z "$bad" ] || cluster_fail "table $1 has a unique key without $column:$bad"
    for shard in "${names[@]}"; do
        { echo "CREATE DATABASE IF NOT EXISTS \`$database\`; USE \`$database\`;" && echo "$form"; } |
            node_run_sql "$shard"
        [ "$by" = key ] || bound=$(spider_bound "$shard" "$form" "$column")
        parts+=", PARTITION $shard $bound COMMENT = 'srv \"$shard\"'"
    done
    local partitioning="KEY (\`$column\`)"
    [ "$by" = key ] || partitioning="RANGE COLUMNS (\`$column\`)"
    node_run_sql spider "$database" <<SQL
RENAME TABLE \`$table\` TO \`${table}_before\`;
${form/ENGINE=InnoDB/ENGINE=SPIDER}
  COMMENT='wrapper "mysql", database "$database", table "$table"'
  PARTITION BY $partitioning (${parts#, });
INSERT INTO \`$table\` SELECT * FROM \`${table}_before\`;
DROP TABLE \`${table}_before\`;
SQL
}

# The end of a shard's range, a third or a half of all first bytes: of the bytes themselves in a binary column,
# of their hexadecimal digits in a text. The last shard has no end. `names` are the shards.
spider_bound() {
    local place=0 each digits
    for each in "${names[@]}"; do
        place=$((place + 1))
        [ "$each" != "$1" ] || break
    done
    if [ $place = ${#names[@]} ]; then
        echo "VALUES LESS THAN (MAXVALUE)"
        return
    fi
    digits=$(printf %02x $((256 * place / ${#names[@]})))
    if grep -qE "^  \`$3\` (var)?binary" <<<"$2"; then
        echo "VALUES LESS THAN (x'$digits')"
    else
        echo "VALUES LESS THAN ('$digits')"
    fi
}
