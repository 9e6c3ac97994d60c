#!/usr/bin/env python3
"""Two hosts sweep one feedback gateway every hour, each from a state folder of its own and from another
node of a Galera cluster first, while their runs and nodes are killed. Called by Trials/kills --run hours.

An hour takes as long as its runs: the gateway gets its lists, both hosts start at once, and the trouble of
the hour happens. Then the hour passes: leases end, nodes are back. A list that nobody read waits in the gateway
for the next hour. At the end:
  lists     what the gateway handed out is in the folder of one host, whole, and in no other. Only a list of an hour in
            which a run was killed may be cut or gone: those are counted
  counts    the checkpoint of each list counts each of its tuples once; all together as the model says
  rows      exactly the tokens of the lists whose devices did not register again are marked
  ledger    one entry for each mark, and for the later of two tuples about one device one that moves it
"""
import argparse
import collections
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

from cluster_kills_stage import DATABASE, START, Cluster, Stage, Trouble, parse, positive, token

HOUR = 3_600
# The devices that are added for each hour; the first ones register again after their tuple.
DEVICES, AGAIN = 50, 5
# Numbers from here on are in no row.
FOREIGN = 10_000_000
HOST_KILLS, NODE_TROUBLES, QUIET_HOURS = 0.25, 0.06, 0.2


def hours_list(hour):
    """The tuples of an hour, as time and number: of its own devices, of unknown ones, and of devices that
    an earlier hour had."""
    at = START + hour * HOUR
    numbers = list(range(hour * DEVICES, (hour + 1) * DEVICES)) + [FOREIGN + hour * 3 + i for i in range(3)]
    if hour:
        numbers += list(range((hour - 1) * DEVICES + AGAIN, (hour - 1) * DEVICES + AGAIN + 4))
    return [(at + 600 + place, number) for place, number in enumerate(numbers)]


def is_again(number):
    return number % DEVICES < AGAIN


class Gateway:
    """The feedback gateway of the simulator, started for each hour with what nobody read so far."""

    def __init__(self, simulator, folder):
        self.simulator, self.folder, self.port = simulator, folder, 0
        self.certificates = os.path.join(folder, "certificates")
        self.waiting, self.handed = [], []
        self.start()
        self.stop()

    def add(self, number, tuples):
        path = os.path.join(self.folder, f"list{number}")
        with open(path, "wb") as file:
            for at, device in tuples:
                file.write(struct.pack(">IH", at, 32) + token(device))
        self.waiting.append(path)

    def start(self):
        words = [word for path in self.waiting for word in ("--feed", path)]
        self.process = subprocess.Popen(
            [self.simulator, "feedback", "--directory", self.certificates, "--port", str(self.port), *words],
            stdout=subprocess.PIPE, text=True)
        self.port = int(json.loads(self.process.stdout.readline())["listening"].rpartition(":")[2])

    def stop(self, was_killed=False):
        """Ends it, and notes what it handed out, and whether a run was killed meanwhile."""
        self.process.terminate()
        out, _ = self.process.communicate(timeout=30)
        lists = self.waiting
        for record in map(json.loads, out.splitlines()):
            if (number := record.get("list")) is not None:
                self.handed.append((lists[number], was_killed))
        handed = {path for path, _ in self.handed}
        self.waiting = [path for path in lists if path not in handed]


class Sweeps(Stage):
    """The token table, and two hosts."""

    def __init__(self, cluster, program, gateway, hours):
        self.gateway, self.hours = gateway, hours
        folder = gateway.certificates
        super().__init__(cluster, program, hosts=2, app=f"""    certificate: {{file: {folder}/client.pem, key: {folder}/client.key}}
    feedback: {{host: 127.0.0.1, port: {gateway.port}, ca: {folder}/ca.pem}}
""")

    def fill(self):
        self.empty()
        self.register([(n, START + n // DEVICES * HOUR + (HOUR // 2 if is_again(n) else 0))
                       for n in range(self.hours * DEVICES)])

    def let_time_pass(self):
        self.cluster.sql("UPDATE pushsweep_lease SET expires_at = '2020-01-01'", database=DATABASE)

    def lists(self, host):
        """The lists of a host that have a content: name, state and bytes. ListFile.swift has the form."""
        lists = []
        for name in sorted(os.listdir(self.state(host))):
            state, _, list_name = name.partition("-")
            if state not in ("list", "applied") or ".damaged-" in name:
                continue
            with open(os.path.join(self.state(host), name), "rb") as file:
                whole = file.read()
            place, content = 65_536, b""
            while (length := int.from_bytes(whole[place:place + 4], "big")) > 0:
                content += whole[place + 16:place + 16 + length]
                place += 16 + length
                place += 65_536 - place % 65_536 if 65_536 - place % 65_536 <= 16 else 0
            lists.append((list_name, "applied" if state == "applied" else "pending", content))
        return [found for found in lists if found[2]]

    def problems(self):
        found, cut, tuples = [], [], []
        lists = {}
        for path, _ in self.gateway.handed:
            with open(path, "rb") as file:
                lists[path] = file.read()
        if len(lists) != len(self.gateway.handed):
            found.append("the gateway handed out a list twice")
        checkpoints = {row[0]: [int(n) for n in row[1:]] for row in self.cluster.sql(
            "SELECT feed, SUM(applied), SUM(newer), SUM(unknown_tokens), SUM(already), SUM(refused) FROM pushsweep_feed "
            "GROUP BY feed", database=DATABASE)}
        readers = collections.Counter()
        for host in range(2):
            for name, state, content in self.lists(host):
                if state != "applied":
                    found.append(f"feed {name} of host {host} is {state}")
                path = next((p for p, whole in lists.items() if whole.startswith(content)), None)
                if path is None:
                    found.append(f"feed {name} of host {host} is no list of the gateway")
                    continue
                readers[path] += 1
                cut += [path] if content != lists[path] else []
                mine = list(struct.iter_unpack(">IH32s", content[:len(content) // 38 * 38]))
                tuples += mine
                if sum(checkpoints.get(name, [])) != len(mine):
                    found.append(f"feed {name}: {len(mine)} tuples, counted {checkpoints.get(name)}")
        if twice := [p for p, n in readers.items() if n > 1]:
            found.append(f"{len(twice)} lists are in two folders")
        gone = [path for path in lists if not readers[path]]
        # The gateway forgets a list when it sends it, so what a killed run had not yet written is nowhere.
        if wrong := set(cut + gone) - {path for path, was_killed in self.gateway.handed if was_killed}:
            found.append(f"{len(wrong)} lists are cut or gone, though no run of their hour was killed")
        return found + self.model_problems(tuples, checkpoints), len(cut), len(gone)

    def model_problems(self, tuples, checkpoints):
        numbers = {token(n): n for n in range(self.hours * DEVICES)}
        tokens = [name for _, _, name in tuples]
        known = [name for name in tokens if name in numbers]
        newer = [name for name in known if is_again(numbers[name])]
        stale = set(known) - set(newer)
        wanted = [len(stale), len(newer), len(tokens) - len(known), len(known) - len(newer) - len(stale), 0]
        counted = [sum(column) for column in zip(*checkpoints.values())]
        found = [] if counted == wanted else [f"counts {counted}, not {wanted}"]
        marked = set(self.column("SELECT HEX(device_token) FROM active_users WHERE invalidated_at IS NOT NULL"))
        entries = self.column("SELECT HEX(token) FROM pushsweep_change WHERE seq >= 0 AND action = 'mark'")
        # Of two tuples about one device the later one moves the mark.
        moved = self.column("SELECT HEX(token) FROM pushsweep_change WHERE seq >= 0 AND action <> 'mark'")
        if marked != {name.hex().upper() for name in stale}:
            found.append(f"{len(marked)} marked, not {len(stale)}")
        if sorted(entries) != sorted(marked):
            found.append(f"{len(entries)} marks in the ledger, {len(marked)} in the table")
        if len(moved) != len(set(moved)) or set(moved) - marked or len(moved) > wanted[3]:
            found.append(f"{len(moved)} moved marks in the ledger, {wanted[3]} repeated tuples")
        return found


class Cron:
    """The hours."""

    def __init__(self, stage, chance):
        self.stage, self.chance, self.usual = stage, chance, 1.0
        self.codes, self.struck = collections.Counter(), collections.Counter()

    def hour(self, is_calm=False):
        """Both hosts' runs of an hour, and its trouble."""
        chance, cluster = self.chance, self.stage.cluster
        self.stage.let_time_pass()
        self.stage.gateway.start()
        began = time.time()
        runs = [self.stage.begin("sweep", host=0)]
        # Without trouble one after the other, so that the second one finds no lease.
        if is_calm:
            runs[0].wait()
        runs.append(self.stage.begin("sweep", host=1))
        repair = None
        if not is_calm:
            kills = chance.random() < HOST_KILLS
            if chance.random() < NODE_TROUBLES:
                time.sleep(chance.uniform(0, self.usual / 2))
                hurt, repair, pause = Trouble(cluster, chance).strike(
                    chance.choice(["kill", "pause", "isolate"]), runs[0])
                self.struck[hurt.split(" ")[0]] += 1
                time.sleep(pause)
                repair()
            if kills:
                time.sleep(max(0, began + chance.uniform(0, self.usual) - time.time()))
                victim = chance.choice(runs)
                self.struck["host"] += victim.poll() is None
                victim.kill()
        ended = [run.communicate(timeout=300) for run in runs]
        self.usual = self.usual if repair else max(0.3, 0.9 * self.usual + 0.1 * (time.time() - began))
        codes = [run.returncode for run in runs]
        self.stage.gateway.stop(was_killed=-signal.SIGKILL in codes)
        if repair:
            cluster.settle()
        self.codes.update(codes)
        for code, (_, error) in zip(codes, ended):
            if code not in (0, -9, 4, 69, 75):
                raise SystemExit(f"exit {code}: {error[-2000:]}")
        return codes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["galera"])
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--simulator", required=True)
    parser.add_argument("--run", choices=["hours"], default="hours")
    parser.add_argument("--hours", type=positive, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parse(parser)
    chance = random.Random(options.seed)
    folder = tempfile.mkdtemp(prefix="pushsweep-kills.")
    gateway = Gateway(options.simulator, folder)
    stage = Sweeps(Cluster(options.kind, options.cluster), options.program, gateway, options.hours)
    print(f"{options.kind}, hours, seed {options.seed}", flush=True)
    try:
        stage.prepare()
        stage.fill()
        cron = Cron(stage, chance)
        for hour in range(options.hours):
            if chance.random() >= QUIET_HOURS:
                gateway.add(hour, hours_list(hour))
            codes = cron.hour()
            if (hour + 1) % 25 == 0:
                print(f"hour {hour + 1}: codes {dict(cron.codes)}, struck {dict(cron.struck)}, usual {cron.usual:.1f} s, "
                      f"{len(gateway.handed)} lists", flush=True)
        # Hours without trouble, until nothing is left to do.
        for _ in range(5):
            codes = cron.hour(is_calm=True)
        found, cut, gone = stage.problems()
        print(f"{options.hours} hours, codes {dict(cron.codes)}, struck {dict(cron.struck)}; {len(gateway.handed)} lists "
              f"handed out; a killed run had read {cut} of them in part, and {gone} not yet")
        if any(codes):
            found.append(f"the last hour ended with {codes}")
        if gateway.waiting:
            found.append(f"{len(gateway.waiting)} lists were never read")
        if found:
            raise SystemExit(f"seed {options.seed}: " + "; ".join(found[:20]))
        print("every other list read once, every tuple counted once, 0 wrong")
        stage.drop()
    finally:
        shutil.rmtree(stage.home, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
