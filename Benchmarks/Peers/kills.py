"""kill -9 at a random moment of a run, then one run more as cron would start it.

The list is small, because the question is what is lost, not how long it takes. A feedback gateway forgets
its list once it has sent it: what a killed program had read and not kept is lost.
"""

import random
import time

from feeds import app_with_feedback
from ground import Gateway
from marks import ARCHIVER, DJANGO_PEER, TableWork
from work import Outcome, Peer, wrong_facts

SWEEP = Peer(
    "tutorial", ("module:MySQLdb",), "journal, compare with the registration, ledger, guard, undo")
ROUNDS = 20


class Kill(TableWork):
    """Twenty kills of each; a fact is the number of tokens in all rounds."""

    name = "kill"
    what = "survive kill -9 at a random moment, 20 times: tokens lost, tokens marked wrongly"
    peers = (SWEEP, DJANGO_PEER, ARCHIVER)
    once = True

    def __init__(self, ground, scale):
        super().__init__(ground, scale)
        self.fill = (20_000, 2_000)
        self.seed = random.SystemRandom().randrange(1_000_000)

    def reset(self, peer):
        """Each round restores for itself."""

    def theirs(self, peer):
        return self.rounds(peer, self.commands_of(peer))

    def ours(self, peer):
        outcome = self.rounds(peer, self.commands_of_ours(peer))
        outcome.fault = wrong_facts(outcome.facts, "lost", "marked wrongly")
        return outcome

    def commands_of(self, peer):
        """The run that is killed and the run after it: words and environment, for a gateway."""
        table = self.table(peer)
        if peer is SWEEP:
            program = [self.ground.python, self.ground.client("sweep.py")]

            def sweep(gateway, _):
                where = [str(gateway.port), gateway.first["certificate"], gateway.first["key"]]
                return program + where, self.ground.account(table.database)
            return sweep
        words, env = self.words(peer, table, table.hexes)
        if peer is DJANGO_PEER:
            return lambda _, later: (words + ["later" if later else "first"], env)
        return lambda _, later: (words, env)

    def commands_of_ours(self, peer):
        table = self.table(peer)
        policy = "policy: {action: delete}" if peer is ARCHIVER else ""

        def sweep(gateway, later):
            if not later:
                self.settings = table.settings(app_with_feedback(gateway), policy)
            return [self.ground.program("pushsweep"), "sweep", "--config", self.settings], {}
        return sweep

    def rounds(self, peer, command):
        table = self.table(peer)
        draw = random.Random(self.seed)
        # The first run is slower than those that follow.
        whole = [self.round(table, command, None)[2] for _ in range(2)][1]
        lost = wrongly = killed = 0
        for _ in range(ROUNDS):
            bad, missed, took = self.round(table, command, draw.random() * whole)
            wrongly, lost, killed = wrongly + bad, lost + missed, killed + (took is None)
        return Outcome(None, {"seed": self.seed, "killed at work": killed, "lost": lost,
                              "marked wrongly": wrongly})

    def round(self, table, command, moment):
        """One run that is killed at a moment, and one run more. Returns the rows that are wrong, and the
        seconds of a run that ended by itself."""
        table.restore(timed=False)
        took = None
        with Gateway(self.ground, "feedback", "--feed", str(table.feed)) as gateway:
            for later in (False, True):
                words, env = command(gateway, later)
                if later or moment is None:
                    seconds = self.ground.run(words, env=env)
                    took = seconds if not later else took
                    continue
                began = time.perf_counter()
                process = self.ground.start(words, env=env)
                time.sleep(moment)
                if process.poll() is None:
                    self.ground.kill(process)
                else:
                    took = time.perf_counter() - began
        return *table.judge(), took
