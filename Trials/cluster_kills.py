#!/usr/bin/env python3
"""Kills, cuts off and pauses nodes of a private cluster while Pushsweep works, and compares every row
with a model afterwards. Called by Trials/kills, which starts the cluster and builds the program.

Each round fills the token table, starts a run, hurts a node or a connection at a random moment, repairs
it, and runs again until a run ends with 0. Before a proxy that splits reads from changes each round begins with
a run that must be refused with 78 and change nothing. Then:
  marks     exactly the tokens of the feed whose devices did not register again
  ledger    one entry for each change, and none without it
  numbers   each entry in one numbered commit, and no chunk left pending
  counts    every tuple of the feed counted once
With --writers devices register on other nodes meanwhile. Then each acknowledged registration must be there at
the end, and alive; a token that somebody registered is changed or counted as registered again.
"""
import argparse
import os
import random
import re
import shutil
import signal
import struct
import sys
import time
from contextlib import nullcontext

from cluster_kills_stage import DATABASE, START, TABLES, Cluster, Stage, Trouble, parse, positive, token
from cluster_kills_writers import Registrations

ROWS, TUPLES, FRESH, UNKNOWN = 6_000, 4_000, 500, 300
# What writers register. The guard holds a feed of which more than half registered again.
WRITTEN = range(FRESH, FRESH + 1_200)


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
        """The tokens whose rows are marked or gone. A row that a writer added has another user."""
        living = set(self.column(
            "SELECT HEX(device_token) FROM active_users WHERE invalidated_at IS NULL AND user_id = 'u'"))
        return {token(n).hex().upper() for n in range(ROWS)} - living

    def check(self, expected, source, note, registrations=None):
        changed = self.changed()
        problems = []
        entries = self.column(
            f"SELECT HEX(token) FROM pushsweep_change WHERE seq >= 0 AND source {'=' if source == 'undo' else '<>'} 'undo'")
        wanted = {token(n).hex().upper() for n in range(FRESH, TUPLES)}
        if registrations:
            # What was registered meanwhile may have been changed before that or not. Rows and ledger have to agree.
            touched = {token(n).hex().upper() for n in registrations.touched}
            wanted = (wanted - touched) | (touched & set(entries))
            expected = wanted
            problems += registrations.problems(self.cluster.sql(
                "SELECT HEX(device_token), TIMESTAMPDIFF(SECOND, '1970-01-01', registered_at), "
                "TIMESTAMPDIFF(SECOND, '1970-01-01', invalidated_at) FROM active_users", database=DATABASE))
        if changed - expected:
            problems.append(f"{len(changed - expected)} changed that must not be")
        if expected - changed:
            problems.append(f"{len(expected - changed)} not changed")
        if len(entries) != len(set(entries)):
            problems.append(f"{len(entries) - len(set(entries))} entries twice")
        if set(entries) != wanted:
            problems.append(f"{len(wanted - set(entries))} changes without an entry, "
                            f"{len(set(entries) - wanted)} entries without a change")
        numbered = self.column("SELECT COALESCE(SUM(last_seq - first_seq + 1), 0) FROM pushsweep_commit WHERE number > 0")
        total = self.column("SELECT COUNT(*) FROM pushsweep_change WHERE seq >= 0")
        if numbered != total:
            problems.append(f"{numbered[0]} of {total[0]} entries are in a numbered commit")
        counts = self.cluster.sql("SELECT SUM(applied), SUM(newer), SUM(unknown_tokens), SUM(already) FROM pushsweep_feed "
                                  "WHERE source <> 'undo'", database=DATABASE)[0]
        if counts != [str(len(wanted)), str(TUPLES - len(wanted)), str(UNKNOWN), "0"]:
            problems.append(f"counts {counts}")
        if problems:
            raise SystemExit(f"{note}: " + "; ".join(problems))


def one_round(stage, trouble, random, usual, words, note):
    """Runs a command, hurts something meanwhile, and runs again until it ends with 0. Returns what was done, the
    exit codes, and whether the first run was not over by then. `usual` are the seconds of a run without trouble."""
    # The strike itself takes a moment.
    cluster, moment, what = stage.cluster, random.uniform(0, 0.85 * usual), trouble.choose()
    process = stage.begin(*words, env=trouble.prepare(what))
    time.sleep(moment)
    name, repair, pause = trouble.strike(what)
    met = process.poll() is None
    time.sleep(pause)
    repair()
    out, err = process.communicate(timeout=300)
    codes = [process.returncode]
    cluster.settle()
    first = err
    while codes[-1] != 0:
        if len(codes) > 6:
            raise SystemExit(f"{note}, {name}: codes {codes}; the first run: {first[-2000:]}\n"
                             f"the last run: {err[-2000:]}")
        words = again(words, err)
        done = stage.run(*words)
        err = done.stderr
        codes.append(done.returncode)
    return name, codes, met


def again(words, err):
    """The command that continues a run: that of the feed, where the run names the one that it has kept."""
    kept = re.search(r"pushsweep replay --feed ([0-9a-f-]{36}) or the next sweep continues it", err)
    return ("replay", "--feed", kept[1]) if kept else words


def registering(stage, options, chance):
    """Devices that register meanwhile, if there are to be any."""
    if not options.writers:
        return nullcontext()
    return Registrations(stage.cluster, options.writers, WRITTEN, random.Random(chance.random()))


def perform(stage, options):
    """All rounds. A round counts where the strike met the run."""
    chance, cluster = random.Random(options.seed), stage.cluster
    expected = {token(n).hex().upper() for n in range(FRESH, TUPLES)}
    sweep = ("replay", stage.feed, "--app", "chat")
    tally, usual, number, met_rounds, registered = {}, None, -1, 0, 0
    while met_rounds < options.rounds:
        note = f"round {number} of seed {options.seed}"
        stage.fill()
        words, wanted = sweep, expected
        if cluster.proxy:
            stage.expect_refusal(sweep, TABLES, note)
        if options.run == "undo":
            done = stage.run(*sweep)
            if done.returncode:
                raise SystemExit(f"{note}: {done.stderr}")
            words, wanted = ("undo", "--since", "2020-01-01T00:00:00Z"), set()
            if cluster.proxy:
                stage.expect_refusal(words, TABLES, note)
        number += 1
        if usual is None:
            began = time.time()
            with registering(stage, options, chance) as registrations:
                done = stage.run(*words)
            if done.returncode:
                raise SystemExit(f"without trouble: {done.returncode} {done.stderr}")
            usual = time.time() - began
            print(f"without trouble: {usual:.1f} s", flush=True)
            stage.check(wanted, options.run, "without trouble", registrations)
            continue
        with registering(stage, options, chance) as registrations:
            name, codes, met = one_round(stage, Trouble(cluster, chance), chance, usual, words, note)
        stage.check(wanted, options.run, f"{note}, {name}, codes {codes}", registrations)
        registered += len(registrations.known) if registrations else 0
        key = re.sub(r" ?\d", "", name)
        tally.setdefault(key, []).append((codes[0], met))
        met_rounds += met
        print(f"{note}: {name}, {'in' if met else 'after'} the run, codes {codes}: right", flush=True)
    for key, codes in sorted(tally.items()):
        print(f"{key}: {len(codes)} rounds, {sum(met for _, met in codes)} met the run, "
              f"{sum(code == 0 for code, _ in codes)} ended with 0 at once")
    print(f"{number} rounds, {met_rounds} met the run" + (
        f"; the replica answered {cluster.proxy.reads} reads" if cluster.proxy else "") + (
        f"; {registered} tokens were registered meanwhile" if options.writers else ""))
    print("0 lost, 0 wrong")


def objection(options):
    """What does not fit together."""
    if options.writers and (options.kind, options.run) != ("galera", "sweep"):
        return "--writers is for a sweep on galera"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["mysql", "galera", "replica"])
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--rounds", type=positive, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--run", choices=["sweep", "undo", "send", "hours"], default="sweep")
    parser.add_argument("--action", choices=["mark", "delete"], default="mark")
    parser.add_argument("--writers", type=int, default=0)
    options = parse(parser, objection)
    stage = FeedStage(Cluster(options.kind, options.cluster), options.program, options.action)
    print(f"{options.kind}, {options.run}, {options.action}, seed {options.seed}", flush=True)
    try:
        stage.prepare()
        perform(stage, options)
        stage.drop()
    finally:
        shutil.rmtree(stage.home, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
