#!/usr/bin/env python3
"""Kills, cuts off and pauses nodes of a private cluster, and kills senders, while `pushsweep send` empties
a queue. Called by Trials/kills --run send.

Each round fills the queue, starts one or two senders (two: as two hosts, on different nodes of Galera), hurts
something at a random moment, repairs it, and lets the senders run again until all end with 0 and no row
is open. Between two runs of a host the time of leases and retries passes at once, by a change of the tables.
Then:
  rows      each in one final state: nothing lost, nothing open
  skipped   exactly the rows of stale and unknown tokens, and none of them reached the gateway
  sent      each reached the gateway; those of known answers exactly once
  twice     only rows that stood as unknown between two runs, and none without send.resend-unknown
  unknown   none where no sender was killed: a node that fails must not lose an answer
  410       the tokens of `gone` rows are marked, and only tokens that APNs called gone; ledger = marks
"""
import argparse
import collections
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cluster_kills_stage import DATABASE, START, TABLES, Cluster, Stage, Trouble, parse, positive, token
from counting_provider import Provider

# Rows of the queue by what is known of their tokens, in the order of their numbers.
SHARES = [("living", 1_800), ("again", 200), ("stale", 400), ("unknown", 300), ("gone", 300)]
ROWS = sum(count for _, count in SHARES)
QUEUE_TABLES = ["push_queue", "pushsweep_claim", "pushsweep_delivery", "pushsweep_evidence"]
RUNS = 8


def kinds():
    """What is known of each number's token."""
    return [kind for kind, count in SHARES for _ in range(count)]


def claimed_keys(encoded):
    """The keys of rows in a claim: runs, each as its distance from the end of the last one and its length
    less one, in LEB128."""
    numbers, number, shift = [], 0, 0
    for byte in encoded:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number, shift = 0, 0
    end = -(1 << 63)
    for distance, length in zip(numbers[::2], numbers[1::2]):
        yield from range(end + distance, end + distance + length + 1)
        end += distance + length


class Queue(Stage):
    """A queue, two hosts that send, and the gateway that they send to."""

    def __init__(self, cluster, program, simulator, certificates):
        subprocess.run([simulator, "certificates", "--directory", certificates], check=True, stdout=subprocess.DEVNULL)
        self.provider = Provider(certificates, gone_at=(START + 3_600) * 1_000)
        super().__init__(cluster, program, hosts=2, app=f"""    certificate: {{file: {certificates}/client.pem, key: {certificates}/client.key}}
    provider: {{host: 127.0.0.1, port: {self.provider.port}, ca: {certificates}/ca.pem, connections: 2}}
""")

    def fill(self, order):
        """Rows whose tokens are in this order."""
        self.empty()
        self.cluster.sql("; ".join(f"DELETE FROM {t}" for t in QUEUE_TABLES), database=DATABASE)
        self.kinds = {token(n).hex(): kind for n, kind in enumerate(kinds())}
        self.provider.forget(t for t, kind in self.kinds.items() if kind == "gone")
        self.register([(n, START) for n, kind in enumerate(kinds()) if kind != "unknown"])
        for kind, registered in (("stale", START), ("again", START + 7_200)):
            marked = [f"X'{t}'" for t, k in self.kinds.items() if k == kind]
            self.cluster.sql(
                "SET time_zone = '+00:00'; UPDATE active_users SET invalid_reason = 'feedback', "
                f"invalidated_at = FROM_UNIXTIME({START + 3_600}), registered_at = FROM_UNIXTIME({registered}) "
                f"WHERE device_token IN ({','.join(marked)})", database=DATABASE)
        self.insert("push_queue", "app_id, environment, device_token, payload, queued_at",
                    [f"""('chat','production',X'{token(n).hex()}','{{"aps":{{"alert":"{n}"}}}}',UTC_TIMESTAMP(3))"""
                     for n in order])

    def open_rows(self):
        return int(self.column("SELECT COUNT(*) FROM push_queue WHERE answered_at IS NULL")[0])

    def unknown_rows(self):
        """The tokens whose rows stand as unknown, or wait to be sent again because they are."""
        return {t.lower() for t in self.column(
            "SELECT HEX(device_token) FROM push_queue WHERE state = 'unknown' OR (state = 'retry' AND attempts > 0)")}

    def left_rows(self):
        """The tokens of the rows that senders which are gone still hold: those that were handed over to the
        gateway's connections, and the others."""
        tokens = {int(key): name.lower() for key, name in self.cluster.sql(
            "SELECT id, HEX(device_token) FROM push_queue WHERE answered_at IS NULL", database=DATABASE)}
        left = {"handed": set(), "held": set()}
        for state, keys in self.cluster.sql(
                "SELECT state, HEX(row_keys) FROM pushsweep_claim WHERE state IN ('handed', 'held')", database=DATABASE):
            left[state] |= {tokens[key] for key in claimed_keys(bytes.fromhex(keys)) if key in tokens}
        return left["handed"], left["held"]

    def let_time_pass(self, leases):
        """Makes retries due and, where a sender did not come back in time, ends its lease."""
        self.cluster.sql("UPDATE push_queue SET not_before = NULL WHERE state = 'retry'"
                         + ("; UPDATE pushsweep_claim SET expires_at = '2020-01-01'" if leases else ""), database=DATABASE)

    def problems(self, resend, unknown, was_killed):
        """What is wrong; `unknown` has the tokens of the rows that stood as unknown at any time."""
        received = collections.Counter()
        for apns_id, count in self.provider.received.items():
            received[self.provider.tokens[apns_id]] += count
        states = {kind: collections.Counter() for kind, _ in SHARES}
        found, rows = [], self.cluster.sql("SELECT HEX(device_token), state, COALESCE(reason, ''), id FROM push_queue",
                                           database=DATABASE)
        reached = set(received)
        if len(rows) != ROWS:
            found.append(f"{len(rows)} of {ROWS} rows are there")
        for name, state, reason, _ in rows:
            kind, word = self.kinds[name.lower()], f"skipped {reason}" if state == "skipped" else state
            # A sender was killed after it had the evidence of a 410 on the disk, and before it had kept the answer:
            # the row was unknown, and the token was stale when its turn came again.
            if resend and (kind, word) == ("gone", "skipped stale") and name.lower() in unknown & reached:
                word = "gone"
            states[kind][word] += 1
        allowed = {"living": {"sent"}, "again": {"sent"}, "gone": {"gone"}, "stale": {"skipped stale"},
                   "unknown": {"skipped unknown"}}
        for kind, count in SHARES:
            wrong = {s: n for s, n in states[kind].items() if s not in allowed[kind]}
            if not resend and kind in ("living", "again", "gone"):
                wrong.pop("unknown", None)
            if wrong:
                found.append(f"tokens {kind}: {wrong}")
        keys = {name.lower(): int(key) for name, _, _, key in rows}
        if any(int(i[-12:], 16) & 0xFFFFFFFFFFFF != keys.get(t) for i, t in self.provider.tokens.items()):
            found.append("an apns-id names another row")
        if len(self.provider.tokens) != len(received):
            found.append("a token has two apns-ids")
        if wrong := [t for t in reached if self.kinds[t] in ("stale", "unknown")]:
            found.append(f"{len(wrong)} skipped tokens were sent to")
        if missing := [n for n, s, _, _ in rows if s in ("sent", "gone") and n.lower() not in reached]:
            found.append(f"{len(missing)} rows have an answer and did not reach the gateway")
        twice = {t for t, n in received.items() if n > 1}
        if twice and not resend:
            found.append(f"{len(twice)} sent twice, without resend-unknown")
        if twice - unknown:
            found.append(f"{len(twice - unknown)} sent twice that never stood as unknown")
        if unknown and not was_killed:
            found.append(f"{len(unknown)} unknown, though no sender was killed")
        return found + self.evidence_problems({n.lower() for n, s, _, _ in rows if s == "gone"}, reached), len(twice)

    def evidence_problems(self, gone, reached):
        marked = {t.lower() for t in self.column(
            "SELECT HEX(device_token) FROM active_users WHERE invalidated_at >= registered_at")}
        marked -= {t for t, kind in self.kinds.items() if kind == "stale"}
        entries = [t.lower() for t in self.column("SELECT HEX(token) FROM pushsweep_change WHERE seq >= 0")]
        found = []
        if gone - marked:
            found.append(f"{len(gone - marked)} answered 410 and are not marked")
        if wrong := [t for t in marked if self.kinds[t] != "gone" or t not in reached]:
            found.append(f"{len(wrong)} marked that no 410 named")
        if sorted(entries) != sorted(marked):
            found.append(f"{len(entries)} entries of the ledger, {len(marked)} marks")
        return found


class Round:
    """Senders, trouble, repair, and runs until the queue is done."""

    def __init__(self, queue, trouble, chance, usual):
        self.queue, self.trouble, self.chance, self.usual = queue, trouble, chance, usual
        self.hosts = range(chance.choice([1, 2]))
        self.resend = chance.random() < 0.6
        self.what = chance.choice(["sender", "node", "node", "both"])
        self.env = dict(PUSHSWEEP_SEND_RESEND_UNKNOWN="true" if self.resend else "false")
        self.hurt = trouble.choose() if self.what != "sender" else "nothing"
        self.unknown, self.silent, self.codes = set(), 0, []

    def begin(self, env=None):
        return [self.queue.begin("send", "--format", "json", env={**self.env, **(env or {})}, host=host)
                for host in self.hosts]

    def end(self, senders):
        """Waits for all of them, and notes what stands as unknown then."""
        ended = [sender.communicate(timeout=300) for sender in senders]
        self.errors = [error for _, error in ended]
        reports = [json.loads(out.splitlines()[-1]) for out, _ in ended if out.strip()]
        self.reclaimed = sum(app["reclaimed"] for report in reports for app in report["apps"])
        self.codes.append(tuple(sender.returncode for sender in senders))

    def wait(self, senders):
        """Until a random number of notifications has arrived; sometimes for a random time, from the start."""
        end, received = time.time() + 60, self.queue.provider.received
        wanted = self.chance.randrange(ROWS - SHARES[2][1] - SHARES[3][1])
        if self.chance.random() < 0.2:
            end, wanted = time.time() + self.chance.uniform(0, self.usual), ROWS
        while len(received) < wanted and time.time() < end and any(s.poll() is None for s in senders):
            time.sleep(0.002)

    def perform(self, note):
        chance, senders = self.chance, self.begin(self.trouble.prepare(self.hurt))
        self.wait(senders)
        name, repair, pause = self.what, lambda: None, 0
        self.before = len(self.queue.provider.received)
        if self.what != "sender":
            hurt, repair, pause = self.trouble.strike(self.hurt)
            name = f"{self.what} ({hurt})"
        if self.what == "both":
            time.sleep(chance.uniform(0, 1))
        if self.what != "node":
            chance.choice(senders).send_signal(signal.SIGKILL)
        time.sleep(pause)
        repair()
        self.end(senders)
        self.queue.cluster.settle()
        name += f", {len(self.hosts)} senders, resend {'on' if self.resend else 'off'}"
        while any(self.codes[-1]) or self.queue.open_rows():
            if len(self.codes) > RUNS:
                raise SystemExit(f"{note}, {name}: codes {self.codes}, {self.queue.open_rows()} open: {self.errors}")
            self.unknown |= self.queue.unknown_rows()
            # The first run after a kill comes within the lease, as that of a service that is started again.
            # What it leaves is taken over at the end of the lease, and reported.
            is_late = len(self.codes) > 1
            handed, held = self.queue.left_rows() if is_late else (set(), set())
            self.queue.let_time_pass(leases=is_late)
            self.end(self.begin())
            self.unknown |= handed
            self.silent += max(0, len(handed | held) - self.reclaimed)
        self.unknown |= self.queue.unknown_rows()
        return name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["mysql", "galera", "replica"])
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--simulator", required=True)
    parser.add_argument("--run", choices=["send"], default="send")
    parser.add_argument("--rounds", type=positive, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parse(parser)
    chance = random.Random(options.seed)
    cluster = Cluster(options.kind, options.cluster)
    certificates = tempfile.mkdtemp(prefix="pushsweep-kills.")
    queue = Queue(cluster, options.program, options.simulator, certificates)
    print(f"{options.kind}, send, seed {options.seed}", flush=True)
    try:
        queue.prepare()
        order, tally, problems, doubled, unknown, middle = list(range(ROWS)), collections.Counter(), 0, 0, 0, 0
        queue.fill(order)
        began = time.time()
        done = queue.run("send", "--format", "json")
        usual = time.time() - began
        if done.returncode or queue.problems(False, set(), False)[0]:
            raise SystemExit(f"without trouble: {done.returncode} {done.stderr} {queue.problems(False, set(), False)}")
        print(f"without trouble: {usual:.1f} s", flush=True)
        for number in range(options.rounds):
            note = f"round {number} of seed {options.seed}"
            chance.shuffle(order)
            queue.fill(order)
            if cluster.proxy:
                queue.expect_refusal(("send",), QUEUE_TABLES + TABLES, note)
                if queue.provider.received:
                    raise SystemExit(f"{note}: a sender was refused and sent something")
            one = Round(queue, Trouble(cluster, chance), chance, usual)
            name = one.perform(note)
            found, twice = queue.problems(one.resend, one.unknown, one.what != "node")
            if one.silent:
                found.append(f"{one.silent} rows of a sender that is gone were taken over and not reported")
            tally[one.what] += 1
            middle += 0 < one.before < ROWS - SHARES[2][1] - SHARES[3][1]
            doubled, unknown, problems = doubled + twice, unknown + len(one.unknown), problems + bool(found)
            print(f"{note}: {name} after {one.before}, codes {one.codes}, {len(one.unknown)} unknown, {twice} twice: "
                  + ("; ".join(found) or "right"), flush=True)
        print(f"{dict(tally)}, {middle} of them in the middle of sending: {ROWS * options.rounds} rows, "
              f"{unknown} unknown, {doubled} of them sent twice"
              + (f"; the replica answered {cluster.proxy.reads} reads" if cluster.proxy else ""))
        if problems:
            raise SystemExit(f"{problems} rounds are wrong")
        print("0 lost, 0 wrong")
        queue.drop()
    finally:
        shutil.rmtree(queue.home, ignore_errors=True)
        shutil.rmtree(certificates, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
