"""A piece of work, the peers that do it too, and the pairs in which both are measured.

Each measurement of a peer stands beside one of Pushsweep on the same data, taken right before or after it
in turn, because the speed of a machine changes within minutes. The ratio is the median of the pairs'.
"""

import statistics
import subprocess
from dataclasses import dataclass, field


class Failure(Exception):
    """Why something could not be measured, in one sentence."""


@dataclass(frozen=True)
class Peer:
    """Somebody else's way to do a piece of work."""

    name: str
    # What has to be there: "program:jq" on PATH, "module:django" among the packages of PyPI.
    needs: tuple
    # What it does not do and Pushsweep does, in few words.
    lacks: str
    # What it does and Pushsweep does not.
    has: str = ""
    # What has to be known about how it was measured.
    note: str = ""
    # The share of the data that it is given. Its seconds are those of all data at the same speed.
    part: float = 1.0


@dataclass
class Outcome:
    """One measurement."""

    # Seconds of the whole process; None where the work is not about time.
    seconds: float | None
    # What was counted afterwards, by its name in the table.
    facts: dict = field(default_factory=dict)
    # What it did wrongly, in few words; empty when all is well.
    fault: str = ""


# What a program, its output or the server may do to a measurement.
TROUBLE = (Failure, OSError, ValueError, IndexError, subprocess.SubprocessError)


class Work:
    """A row of the table for each peer. One object lives for all measurements of one work."""

    name = ""
    what = ""
    peers: tuple = ()
    # Whether it needs the private MariaDB.
    needs_server = False
    # Where a run of ours would be a run of the clock alone, it is measured once for each peer.
    once = False

    def __init__(self, ground, scale):
        self.ground = ground
        self.scale = scale

    def scaled(self, full, least=1000):
        """A count of the full size at this scale."""
        return max(least, int(full * self.scale))

    def reset(self, peer):
        """Brings the data back to the state before each measurement."""

    def theirs(self, peer):
        """Lets the peer work once; returns its Outcome."""
        raise NotImplementedError

    def ours(self, peer):
        """Lets Pushsweep do the same on the same data; returns its Outcome."""
        raise NotImplementedError

    def close(self):
        """Removes what the work made."""


@dataclass
class Row:
    """What the table says about one peer."""

    work: str
    peer: Peer
    seconds: float | None = None
    ours: float | None = None
    ratio: float | None = None
    theirs_facts: dict = field(default_factory=dict)
    ours_facts: dict = field(default_factory=dict)
    fault: str = ""
    ours_fault: str = ""
    # Why it was not measured.
    absent: str = ""


def measure(work, peer, runs, say):
    """Measures a peer and Pushsweep in `runs` pairs."""
    theirs, ours = [], []
    for number in range(1 if work.once else runs):
        steps = [(theirs, work.theirs), (ours, work.ours)]
        for outcomes, step in steps if number % 2 == 0 else steps[::-1]:
            work.reset(peer)
            try:
                outcomes.append(step(peer))
            except TROUBLE as trouble:
                if outcomes is theirs:
                    raise
                # What Pushsweep cannot do is no reason to leave a peer out.
                return Row(work.name, peer, ours_fault=str(trouble))
        say(f"{work.name}, {peer.name}, run {number + 1}: {theirs[-1]} ours {ours[-1]}")
    row = Row(work.name, peer)
    row.seconds = middle([outcome.seconds for outcome in theirs])
    row.ours = middle([outcome.seconds for outcome in ours])
    if row.seconds is not None and row.ours is not None:
        row.ratio = middle([a.seconds / b.seconds for a, b in zip(theirs, ours)])
    row.theirs_facts, row.ours_facts = worst(theirs), worst(ours)
    row.fault = next((outcome.fault for outcome in theirs if outcome.fault), "")
    row.ours_fault = next((outcome.fault for outcome in ours if outcome.fault), "")
    return row


def wrong_facts(facts, *names):
    """What is wrong with a measurement of ours, where a count that must be 0 is not."""
    return ", ".join(f"{name} {facts[name]}" for name in names if facts[name])


def middle(values):
    """The median; None where nothing was timed."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def worst(outcomes):
    """The largest of each fact; of a percentile the median, because one run decides it."""
    facts = {}
    for name in outcomes[0].facts:
        values = [outcome.facts[name] for outcome in outcomes]
        facts[name] = statistics.median(values) if name.startswith("p99") else max(values)
    return facts
