"""What the kill tests share: the nodes of a private cluster, the tables and settings of a stage on them, and
the trouble of one round."""
import argparse
import os
import shutil
import struct
import subprocess
import tempfile
import time

from splitting_proxy import Proxy

START = 1_700_000_000
ENV = os.environ
CLUSTER = "PUSHSWEEP_TEST_CLUSTER_"
NODES = {"mysql": ["1", "2", "3"], "galera": ["1", "2", "3"], "replica": ["primary", "replica"]}
TABLES = ["active_users"] + [f"pushsweep_{t}" for t in ("change", "feed", "run", "commit", "lease")]
ACCEPT = "PUSHSWEEP_STORE_ACCEPT_REPLICA"
# A database of its own: the cluster may have been there before, with somebody's tables.
DATABASE = "pushsweep_kills"


def token(number):
    return struct.pack(">I", (number * 2654435761) & 0xFFFFFFFF) * 2 + struct.pack(">Q", number) * 3


def positive(word):
    """A number of rounds or hours."""
    if int(word) < 1:
        raise ValueError
    return int(word)


def parse(parser, objection=lambda options: None):
    """The options. With --parse-only, which comes before anything is built, ends where they are right. `objection`
    returns a sentence about options that do not fit together."""
    parser.add_argument("--parse-only", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sentence = objection(options)
    if sentence:
        parser.error(sentence)
    if options.parse_only:
        raise SystemExit(0)
    return options


class Cluster:
    """The nodes, by scripts/cluster. Of `replica` there is a proxy before them too, which splits."""

    def __init__(self, kind, script):
        self.kind, self.script = kind, script
        self.password = ENV["PUSHSWEEP_TEST_MARIADB_PASSWORD"]
        self.nodes = NODES[kind]
        self.proxy = None
        if kind == "replica":
            self.proxy = Proxy(int(self.variable("primary", "PORT")), int(self.variable("replica", "PORT")))

    @property
    def main(self):
        """The node that takes changes. Of MySQL's group it is another one after each loss."""
        if self.kind != "mysql":
            return self.nodes[0]
        end = time.time() + 60
        while time.time() < end:
            for node in self.nodes:
                if self.member(node) == ["ONLINE", "PRIMARY", "0"]:
                    return node
            time.sleep(0.2)
        raise RuntimeError("the group has no primary")

    def member(self, node):
        """What a node of MySQL's group is, and whether it refuses changes; nothing where it does not answer."""
        try:
            rows = self.sql("SELECT MEMBER_STATE, MEMBER_ROLE, @@super_read_only FROM "
                            "performance_schema.replication_group_members WHERE MEMBER_ID = @@server_uuid", node,
                            check=False, seconds=3)
        except subprocess.TimeoutExpired:
            return []
        return rows[0] if rows else []

    def variable(self, node, name):
        return ENV[f"{CLUSTER}{node.upper()}_{name}"]

    def url(self, user, host=0):
        """The store of a host; on Galera and MySQL each host begins with another node."""
        nodes = self.nodes if self.kind in ("galera", "mysql") else [self.main]
        turned = nodes[host % len(nodes):] + nodes[:host % len(nodes)]
        return f"mysql://{user}@" + ",".join(f"localhost:{self.variable(n, 'PORT')}" for n in turned) + f"/{DATABASE}"

    def store(self, password, host=0):
        """The lines of the settings about the server. A statement behind the proxy fails early, so
        that a pause may end it."""
        tls = f"tls: {{ca: {ENV['PUSHSWEEP_TEST_MARIADB_CA']}}}"
        if self.proxy:
            # The proxy answers no challenge and has no certificate.
            return [f"url: mysql://pushsweep_split@127.0.0.1:{self.proxy.port}/{DATABASE}", 'tls: {mode: "off"}',
                    "read-timeout: 3s", "write-timeout: 3s"]
        lines = [f"url: {self.url('pushsweep', host)}", f"password-file: {password}", tls]
        # Less than the five seconds for which the nodes wait for a dead one: so answers of commits are lost that
        # take effect later.
        return lines + ["read-timeout: 3s", "write-timeout: 3s"]

    def act(self, node, action):
        done = subprocess.run([self.script, self.kind, "node", node, action], capture_output=True, text=True, timeout=180)
        if done.returncode:
            raise RuntimeError(f"{action} {node}: {done.stderr}")

    def sql(self, text, node=None, database=None, check=True, seconds=120):
        command = ["mariadb", "--no-defaults", "-N", "-B", "--socket=" + self.variable(node or self.main, "SOCKET"),
                   "--user=pushsweep_test"] + ([database] if database else [])
        done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=seconds,
                              env=dict(ENV, MYSQL_PWD=self.password))
        if check and done.returncode:
            raise RuntimeError(f"{text[:200]}: {done.stderr}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def sql_patiently(self, text, node=None):
        """The same, and repeats what a busy node refuses, or one that was hurt just before (1205)."""
        for left in range(3, -1, -1):
            try:
                return self.sql(text, node)
            except RuntimeError as error:
                if left == 0 or "ERROR 1205" not in str(error):
                    raise

    def is_up(self, node):
        if self.kind == "mysql":
            return self.member(node)[:1] == ["ONLINE"]
        question = "SELECT 1"
        if self.kind == "galera":
            question = "SHOW STATUS LIKE 'wsrep_local_state_comment'"
        try:
            state = self.sql(question, node, check=False)
        except subprocess.TimeoutExpired:
            return False
        return bool(state) and (self.kind != "galera" or state[0][1] == "Synced")

    def settle(self):
        """Waits until every node serves."""
        end = time.time() + 120
        while not all(self.is_up(node) for node in self.nodes):
            if time.time() > end:
                raise RuntimeError("the cluster does not come back")
            time.sleep(0.2)


class Stage:
    """Tables and settings; one settings file for each host, with a state folder of its own."""

    def __init__(self, cluster, program, action="mark", hosts=1, app="", more=""):
        self.cluster, self.program = cluster, program
        self.home = tempfile.mkdtemp(prefix="pushsweep-kills.")
        self.password = os.path.join(self.home, "password")
        shutil.copyfile(ENV[CLUSTER + "PASSWORD_FILE"], self.password)
        os.chmod(self.password, 0o600)
        self.configs = [self.write_settings(host, action, app, more) for host in range(hosts)]

    def state(self, host=0):
        return os.path.join(self.home, f"state{host}")

    def write_settings(self, host, action, app, more):
        server = "\n  ".join(self.cluster.store(self.password, host))
        path = os.path.join(self.home, f"settings{host}.yaml")
        with open(path, "w") as file:
            file.write(f"""state: {self.state(host)}
store:
  {server}
  connect-timeout: 2s
policy: {{action: {action}}}
guard: {{floor: 1000000}}
{more}
apps:
  - name: chat
    topic: com.example.chat
    environment: production
{app}""")
        return path

    def prepare(self):
        cluster = self.cluster
        self.drop()
        cluster.sql_patiently(f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4")
        account = dict(PUSHSWEEP_STORE_URL=cluster.url("pushsweep_test"),
                       PUSHSWEEP_STORE_PASSWORD=cluster.password)
        done = self.run("schema", "apply", "--create-token-table", env=account)
        if done.returncode:
            raise RuntimeError(done.stderr)
        if cluster.proxy:
            cluster.sql("CREATE USER IF NOT EXISTS pushsweep_split@'%'; "
                        f"GRANT ALL ON {DATABASE}.* TO pushsweep_split@'%'")
            position, = cluster.sql("SELECT @@gtid_binlog_pos")[0]
            cluster.sql(f"SELECT MASTER_GTID_WAIT('{position}', 60)", "replica")

    def drop(self):
        """Removes the tables."""
        self.cluster.sql_patiently(f"DROP DATABASE IF EXISTS {DATABASE}", self.cluster.main)

    def empty(self):
        """Empties the tables and removes the state folders."""
        self.cluster.sql("; ".join(f"DELETE FROM {t}" for t in TABLES), database=DATABASE)
        for host in range(len(self.configs)):
            shutil.rmtree(self.state(host), ignore_errors=True)

    def insert(self, table, columns, rows):
        """Adds rows, given as SQL."""
        for first in range(0, len(rows), 1_000):
            self.cluster.sql(f"SET time_zone = '+00:00'; INSERT INTO {table} ({columns}) VALUES "
                             + ", ".join(rows[first:first + 1_000]), database=DATABASE)

    def register(self, devices):
        """Adds devices, pairs of a number and a time, to the token table."""
        self.insert("active_users", "user_id, app_id, environment, device_token, registered_at",
                    [f"('u','chat','production',X'{token(n).hex()}',FROM_UNIXTIME({at}))" for n, at in devices])

    def environment(self, env):
        """That of a run: what a test wants comes first. A proxy that splits is accepted unless it says no."""
        return {**ENV, **({ACCEPT: "true"} if self.cluster.proxy else {}), **(env or {})}

    def run(self, *words, env=None, host=0):
        return subprocess.run([self.program, *words, "--config", self.configs[host]], capture_output=True, text=True,
                              env=self.environment(env), timeout=300)

    def begin(self, *words, env=None, host=0):
        return subprocess.Popen([self.program, *words, "--config", self.configs[host]], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment(env))

    # Before a proxy that splits.

    def expect_refusal(self, words, tables, note):
        """A proxy that splits is refused before anything is read or changed."""
        sums = f"CHECKSUM TABLE {', '.join(tables)} EXTENDED"
        before = self.cluster.sql(sums, database=DATABASE)
        done = self.run(*words, env={ACCEPT: "false"})
        if done.returncode != 78 or "two servers answer" not in done.stdout + done.stderr:
            raise SystemExit(f"{note}: {words[0]} was not refused: {done.returncode} {done.stderr}")
        if self.cluster.sql(sums, database=DATABASE) != before:
            raise SystemExit(f"{note}: {words[0]} was refused and changed something")

    # What the tables say.

    def column(self, query):
        return [row[0] for row in self.cluster.sql(query, database=DATABASE)]


class Trouble:
    """What happens to the cluster in one round."""
    KINDS = {"mysql": ["kill", "kill", "pause"], "galera": ["kill", "pause", "isolate"],
             "replica": ["kill", "pause", "drop", "before-commit", "after-commit", "turn"]}
    REPAIRS = {"kill": "start", "pause": "resume", "isolate": "rejoin"}

    def __init__(self, cluster, random):
        self.cluster, self.random = cluster, random

    def choose(self):
        return self.random.choice(self.KINDS[self.cluster.kind])

    def prepare(self, what):
        """Before the run; returns its environment. A proxy that is going to `turn` does not split yet, so that
        a run which accepts no split begins."""
        if what != "turn":
            return {}
        self.cluster.proxy.splits = False
        return {ACCEPT: "false"}

    def strike(self, what):
        """Hurts something. Returns what was done, what repairs it, and the seconds until then."""
        if what in ("drop", "before-commit", "after-commit", "turn"):
            return self.by_proxy(what)
        cluster = self.cluster
        # Of MySQL's group only the loss of the primary hurts a run.
        main = cluster.kind == "mysql" or self.random.random() < 0.5
        node = cluster.main if main else self.random.choice(cluster.nodes)
        cluster.act(node, what)

        def repair():
            cluster.act(node, self.REPAIRS[what])
            if (cluster.kind, what) == ("mysql", "pause"):
                # The group may have given the node up meanwhile.
                cluster.act(node, "rejoin")
        return f"{what} {node}", repair, self.random.uniform(0.3, 3 if cluster.kind == "galera" else 4)

    def by_proxy(self, what):
        """Ends the connections of the proxy, now or at the next COMMIT, or lets it begin to split."""
        proxy = self.cluster.proxy
        if what == "turn":
            proxy.splits = True
            return "the proxy begins to split", lambda: None, 0
        if what == "drop":
            proxy.end_all()
            return "drop", lambda: None, 0

        proxy.ends_commit = what.split("-")[0]

        def repair():
            proxy.ends_commit = None
        return f"drop {proxy.ends_commit} a COMMIT", repair, self.random.uniform(0.1, 1)
