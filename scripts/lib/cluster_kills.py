#!/usr/bin/env python3
"""Kills, cuts off and pauses nodes of a private cluster while Pushsweep works, and compares every row
with a model afterwards. Called by scripts/kills, which starts the cluster and builds the program.

Each round fills the token table, starts a run, hurts a node at a random moment, repairs it, and runs
again until a run ends with 0. Then:
  marks     exactly the tokens of the feed whose devices did not register again
  ledger    one entry for each change, and none without it
  numbers   each entry in one numbered commit, and no chunk left pending
  counts    every tuple of the feed counted once
"""
import argparse
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

START = 1_700_000_000
ROWS, TUPLES, FRESH, UNKNOWN = 6_000, 4_000, 500, 300
ENV = os.environ
CLUSTER = "PUSHSWEEP_TEST_CLUSTER_"


def token(number):
    return struct.pack(">I", (number * 2654435761) & 0xFFFFFFFF) * 2 + struct.pack(">Q", number) * 3


class Cluster:
    """The nodes, by scripts/cluster."""

    def __init__(self, kind, script):
        self.kind, self.script = kind, script
        self.password = ENV["PUSHSWEEP_TEST_MARIADB_PASSWORD"]
        self.nodes = ["1", "2", "3"] if kind == "galera" else ["spider", "shard1", "shard2", "shard3"]
        self.main = self.nodes[0]

    def variable(self, node, name):
        return ENV[f"{CLUSTER}{node.upper()}_{name}"]

    def act(self, node, action):
        subprocess.run([self.script, self.kind, "node", node, action], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=180)

    def sql(self, text, node=None, database=None, check=True):
        command = ["mariadb", "--no-defaults", "-N", "-B", "--socket=" + self.variable(node or self.main, "SOCKET"),
                   "--user=pushsweep_test"] + ([database] if database else [])
        done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=120,
                              env=dict(ENV, MYSQL_PWD=self.password))
        if check and done.returncode:
            raise RuntimeError(f"{text[:200]}: {done.stderr}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def is_up(self, node):
        try:
            state = self.sql("SELECT 1" if self.kind == "spider" else "SHOW STATUS LIKE 'wsrep_local_state_comment'",
                             node, check=False)
        except subprocess.TimeoutExpired:
            return False
        return bool(state) and (self.kind == "spider" or state[0][1] == "Synced")

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

    def url(self, user, host=0):
        """The store of a host: each begins with another node."""
        nodes = self.cluster.nodes if self.cluster.kind == "galera" else [self.cluster.main]
        turned = nodes[host % len(nodes):] + nodes[:host % len(nodes)]
        return f"mysql://{user}@" + ",".join(f"localhost:{self.cluster.variable(n, 'PORT')}" for n in turned) + "/push"

    def state(self, host=0):
        return os.path.join(self.home, f"state{host}")

    def write_settings(self, host, action, app, more):
        key = "\n  active-users: {key: [id, device_token]}" if self.cluster.kind == "spider" else ""
        path = os.path.join(self.home, f"settings{host}.yaml")
        with open(path, "w") as file:
            file.write(f"""state: {self.state(host)}
store:
  url: {self.url("pushsweep", host)}
  password-file: {self.password}
  tls: {{ca: {ENV["PUSHSWEEP_TEST_MARIADB_CA"]}}}
  connect-timeout: 2s
  read-timeout: 10s
  write-timeout: 10s{key}
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
        if cluster.kind == "galera":
            cluster.sql("DROP DATABASE IF EXISTS push; CREATE DATABASE push CHARACTER SET utf8mb4")
        account = dict(ENV, PUSHSWEEP_STORE_URL=self.url("pushsweep_test"),
                       PUSHSWEEP_STORE_PASSWORD=cluster.password)
        done = self.run("schema", "apply", "--create-token-table", env=account)
        if done.returncode:
            raise RuntimeError(done.stderr)
        cluster.sql("GRANT ALL ON push.* TO pushsweep")

    def empty(self):
        """Empties the tables and removes the state folders."""
        tables = ["active_users"] + [f"pushsweep_{t}" for t in ("change", "feed", "run", "commit", "lease")]
        self.cluster.sql("; ".join(f"DELETE FROM {t}" for t in tables), database="push")
        for host in range(len(self.configs)):
            shutil.rmtree(self.state(host), ignore_errors=True)

    def insert(self, table, columns, rows):
        """Adds rows, given as SQL."""
        for first in range(0, len(rows), 1_000):
            self.cluster.sql(f"SET time_zone = '+00:00'; INSERT INTO {table} ({columns}) VALUES "
                             + ", ".join(rows[first:first + 1_000]), database="push")

    def register(self, devices):
        """Adds devices, pairs of a number and a time, to the token table."""
        self.insert("active_users", "user_id, app_id, environment, device_token, registered_at",
                    [f"('u','chat','production',X'{token(n).hex()}',FROM_UNIXTIME({at}))" for n, at in devices])

    def run(self, *words, env=None, host=0):
        return subprocess.run([self.program, *words, "--config", self.configs[host]], capture_output=True, text=True,
                              env=env or ENV, timeout=300)

    def begin(self, *words, env=None, host=0):
        return subprocess.Popen([self.program, *words, "--config", self.configs[host]], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=dict(ENV, **(env or {})))

    # What the tables say.

    def column(self, query):
        return [row[0] for row in self.cluster.sql(query, database="push")]


class FeedStage(Stage):
    """A captured feed, and the rows that it is about."""

    def __init__(self, cluster, program, action):
        super().__init__(cluster, program, action)
        self.feed = os.path.join(self.home, "feed")
        with open(self.feed, "wb") as file:
            for number in list(range(TUPLES)) + list(range(ROWS, ROWS + UNKNOWN)):
                file.write(struct.pack(">IH", START + 600 + number, 32) + token(number))

    def fill(self):
        self.empty()
        self.register([(n, START + (7_200 if n < FRESH else 0)) for n in range(ROWS)])

    def changed(self):
        """The tokens that are marked or gone."""
        living = set(self.column("SELECT HEX(device_token) FROM active_users WHERE invalidated_at IS NULL"))
        return {token(n).hex().upper() for n in range(ROWS)} - living

    def check(self, expected, source, note):
        changed = self.changed()
        problems = []
        if changed - expected:
            problems.append(f"{len(changed - expected)} changed that must not be")
        if expected - changed:
            problems.append(f"{len(expected - changed)} not changed")
        entries = self.column(
            f"SELECT HEX(token) FROM pushsweep_change WHERE seq >= 0 AND source {'=' if source == 'undo' else '<>'} 'undo'")
        wanted = {token(n).hex().upper() for n in range(FRESH, TUPLES)}
        if len(entries) != len(set(entries)):
            problems.append(f"{len(entries) - len(set(entries))} entries twice")
        if set(entries) != wanted:
            problems.append(f"{len(wanted - set(entries))} changes without an entry, "
                            f"{len(set(entries) - wanted)} entries without a change")
        numbered = self.column("SELECT COALESCE(SUM(last_seq - first_seq + 1), 0) FROM pushsweep_commit WHERE number > 0")
        total = self.column("SELECT COUNT(*) FROM pushsweep_change WHERE seq >= 0")
        if numbered != total:
            problems.append(f"{numbered[0]} of {total[0]} entries are in a numbered commit")
        if self.column("SELECT COUNT(*) FROM pushsweep_feed WHERE pending IS NOT NULL") != ["0"]:
            problems.append("a chunk is pending")
        counts = self.cluster.sql("SELECT SUM(applied), SUM(newer), SUM(unknown_tokens), SUM(already) FROM pushsweep_feed "
                                  "WHERE source <> 'undo'", database="push")[0]
        if counts != [str(TUPLES - FRESH), str(FRESH), str(UNKNOWN), "0"]:
            problems.append(f"counts {counts}")
        if problems:
            raise SystemExit(f"{note}: " + "; ".join(problems))


class Trouble:
    """What happens to the cluster in one round."""

    def __init__(self, cluster, random, mode):
        self.cluster, self.random, self.mode = cluster, random, mode

    def choose(self):
        cluster = self.cluster
        if self.mode == "commit":
            return self.random.choice(["commit-main", "commit-shard"])
        return self.random.choice(["kill", "pause"] + (["isolate"] if cluster.kind == "galera" else []))

    def strike(self, what, process):
        """Hurts a node, and returns what repairs it."""
        cluster = self.cluster
        if what.startswith("commit"):
            return self.during_commit(what, process)
        node = cluster.main if self.random.random() < 0.5 else self.random.choice(cluster.nodes)
        cluster.act(node, {"isolate": "isolate"}.get(what, what))
        repair = {"kill": "start", "pause": "resume", "isolate": "rejoin"}[what]
        return f"{what} {node}", lambda: cluster.act(node, repair), self.random.uniform(0.3, 3)

    def during_commit(self, what, process):
        """Lets a shard block its commits, and kills it or the Spider node while a COMMIT waits for it."""
        cluster = self.cluster
        shard = self.random.choice(cluster.nodes[1:])
        victim = cluster.main if what == "commit-main" else shard
        block = subprocess.Popen(
            ["mariadb", "--no-defaults", "--socket=" + cluster.variable(shard, "SOCKET"), "--user=pushsweep_test", "-e",
             "BACKUP STAGE START; BACKUP STAGE BLOCK_COMMIT; DO SLEEP(60)"],
            env=dict(ENV, MYSQL_PWD=cluster.password), stderr=subprocess.DEVNULL)
        waits = False
        while process.poll() is None and not waits:
            rows = cluster.sql("SELECT INFO FROM information_schema.processlist WHERE USER = 'pushsweep'", check=False)
            waits = any(row[0].upper().startswith("COMMIT") for row in rows)
            # A look that meets a commit of the ledger meets no shard.
            if waits:
                time.sleep(0.1)
                rows = cluster.sql("SELECT INFO FROM information_schema.processlist WHERE USER = 'pushsweep'", check=False)
                waits = any(row[0].upper().startswith("COMMIT") for row in rows)
        if waits:
            cluster.act(victim, "kill")
        block.kill()
        block.wait()
        if not waits:
            return f"{what} {shard}, no COMMIT waited", lambda: None, 0
        return f"{what} {shard} in a COMMIT", lambda: cluster.act(victim, "start"), self.random.uniform(0.1, 1)


def one_round(stage, trouble, random, usual, words, note):
    """Runs a command, hurts a node meanwhile, and runs again until it ends with 0. Returns what was done, the
    exit codes, and whether the first run was not over by then."""
    process = stage.begin(*words)
    time.sleep(random.uniform(0, usual))
    what = trouble.choose()
    name, repair, pause = trouble.strike(what, process)
    met = process.poll() is None
    time.sleep(pause)
    repair()
    out, err = process.communicate(timeout=300)
    codes = [process.returncode]
    stage.cluster.settle()
    while codes[-1] != 0:
        if len(codes) > 6:
            raise SystemExit(f"{note}, {name}: codes {codes}: {done.stderr[-2000:]}")
        done = stage.run(*words)
        codes.append(done.returncode)
    return name, codes, met


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["galera", "spider"])
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--run", choices=["sweep", "undo"], default="sweep")
    parser.add_argument("--action", choices=["mark", "delete"], default="mark")
    parser.add_argument("--at", choices=["random", "commit"], default="random")
    options = parser.parse_args()
    if options.at == "commit" and options.kind != "spider":
        parser.error("--at commit is for spider")
    chance = random.Random(options.seed)
    cluster = Cluster(options.kind, options.cluster)
    stage = FeedStage(cluster, options.program, options.action)
    print(f"{options.kind}, {options.run}, {options.action}, seed {options.seed}", flush=True)
    try:
        stage.prepare()
        expected = {token(n).hex().upper() for n in range(FRESH, TUPLES)}
        sweep = ("replay", stage.feed, "--app", "chat")
        tally = {}
        usual = None
        for number in range(-1, options.rounds):
            note = f"round {number} of seed {options.seed}"
            stage.fill()
            words, wanted = sweep, expected
            if options.run == "undo":
                done = stage.run(*sweep)
                if done.returncode:
                    raise SystemExit(f"{note}: {done.stderr}")
                words, wanted = ("undo", "--since", "2020-01-01T00:00:00Z"), set()
            if usual is None:
                began = time.time()
                done = stage.run(*words)
                if done.returncode:
                    raise SystemExit(f"without trouble: {done.returncode} {done.stderr}")
                usual = time.time() - began
                print(f"without trouble: {usual:.1f} s", flush=True)
                stage.check(wanted, options.run, "without trouble")
                continue
            name, codes, met = one_round(stage, Trouble(cluster, chance, options.at), chance, usual, words, note)
            stage.check(wanted, options.run, f"{note}, {name}, codes {codes}")
            key = name.split(" ")[0] + (", no COMMIT waited" if "no COMMIT" in name else "")
            tally.setdefault(key, []).append((codes[0], met))
            print(f"{note}: {name}, {'in' if met else 'after'} the run, codes {codes}: right", flush=True)
        for key, codes in sorted(tally.items()):
            print(f"{key}: {len(codes)} rounds, {sum(met for _, met in codes)} met the run, "
                  f"{sum(code == 0 for code, _ in codes)} ended with 0 at once")
        print("0 lost, 0 wrong")
    finally:
        shutil.rmtree(stage.home, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
