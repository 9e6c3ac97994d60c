"""Works that change rows: mark, delete, and both while devices register.

The peers get what they need without a gateway: the list in a file, in a table, or as answers of a sending.
Pushsweep gets the bytes of the feed and does all that it does with a list of a gateway.
"""

import json
import os
import signal
import subprocess
import time

from tokens import DJANGO, OWN, TokenTable
from work import Failure, Outcome, Peer, Work, wrong_facts

NONE_OF_IT = "compare with the registration, ledger, guard, journal, undo"
UPDATE = Peer("update", ("module:MySQLdb",), NONE_OF_IT, part=0.1)
TRANSACTION = Peer(
    "update-transaction", ("module:MySQLdb",), "ledger, guard, journal, undo",
    note="the same statements in one transaction, with the registration compared")
DJANGO_PEER = Peer(
    "django", ("module:MySQLdb", "module:push_notifications"), NONE_OF_IT,
    has="tokens of Android, Windows and browsers",
    note="its own code behind the last answer is timed; APNs is made to answer as of the time of sending")
ARCHIVER = Peer(
    "pt-archiver", ("program:pt-archiver", "module:MySQLdb"), "ledger, guard, journal, undo, marks; it reads no list",
    has="any condition, copies of the rows in another table or a file",
    note="the list stood in an indexed table, and its condition compares the registration")


class TableWork(Work):
    """A work on a table of a million rows, in the shape that the peer needs."""

    needs_server = True

    def __init__(self, ground, scale):
        super().__init__(ground, scale)
        self.tables = {}
        self.fill = (self.scaled(1_000_000, 20_000), self.scaled(100_000, 2_000))

    def table(self, peer):
        """The table of the peer's shape; made when it is first needed."""
        shape = DJANGO if peer is DJANGO_PEER else OWN
        if shape not in self.tables:
            self.tables[shape] = TokenTable(self.ground, shape, f"{self.name}{len(self.tables)}", *self.fill)
        return self.tables[shape]

    def reset(self, peer):
        self.table(peer).restore()

    def words(self, peer, table, tokens):
        """The program of the peer for a list of tokens, and its environment."""
        ground = self.ground
        account = ground.account(table.database)
        if peer is DJANGO_PEER:
            return ([ground.python, ground.client("mark_django.py"), str(tokens)],
                    table.django_environment())
        if peer is ARCHIVER:
            return archiver(ground, account), {}
        mode = "transaction" if peer is TRANSACTION else "each"
        return [ground.python, ground.client("mark.py"), mode, str(tokens)], account

    def theirs(self, peer):
        table = self.table(peer)
        tokens, share = table.part(peer.part)
        words, env = self.words(peer, table, tokens)
        return self.judged(self.ground.run(words, env=env) / share, table, peer.part)

    def ours(self, peer):
        table = self.table(peer)
        policy = "policy: {action: delete}" if peer is ARCHIVER else ""
        settings = table.settings(policy=policy)
        took = self.ground.pushsweep("replay", str(table.feed), "--config", settings)
        outcome = self.judged(took, table)
        outcome.fault = wrong_facts(outcome.facts, "wrong rows", "missed")
        return outcome

    def judged(self, took, table, share=1.0):
        wrongly, missed = table.judge(share)
        return Outcome(took, {"wrong rows": wrongly, "missed": missed})

    def close(self):
        for table in self.tables.values():
            table.close()


def archiver(ground, account):
    """pt-archiver in chunks of the primary key, one DELETE and one commit for each."""
    login = ground.folder / "archiver.cnf"
    login.touch(mode=0o600)
    login.write_text(f"[client]\nsocket={account['PEER_SOCKET']}\nuser={account['PEER_USER']}\n"
                     f"password={account['PEER_PASSWORD']}\n")
    source = f"F={login},D={account['PEER_DATABASE']},t=active_users"
    return ["pt-archiver", "--source", source, "--purge", "--primary-key-only", "--limit", "1000",
            "--commit-each", "--bulk-delete", "--no-safe-auto-increment", "--no-check-charset", "--no-version-check", "--where",
            "EXISTS (SELECT 1 FROM listed WHERE listed.token = active_users.device_token "
            "AND listed.dead >= active_users.registered_at)"]


class Mark(TableWork):
    name = "mark"
    what = "mark 100,000 dead tokens in a table of a million, of which one in twenty came back"
    peers = (UPDATE, TRANSACTION, DJANGO_PEER)


class Delete(TableWork):
    name = "delete"
    what = "delete 100,000 dead tokens from a table of a million, of which one in twenty came back"
    peers = (ARCHIVER,)


class Writers(TableWork):
    """The same while eight writers register devices at a fixed rate, for as long as the program works."""

    name = "writers"
    what = "the same while 8 writers register devices: longest wait of a writer, and wrong rows"
    peers = (UPDATE, TRANSACTION, DJANGO_PEER, ARCHIVER)

    def theirs(self, peer):
        return self.during(peer, super().theirs)

    def ours(self, peer):
        return self.during(peer, super().ours)

    def during(self, peer, step):
        """Lets writers register from before the step to its end."""
        self.writers = Registering(self.ground, self.table(peer))
        try:
            return step(peer)
        finally:
            self.writers.end()

    def judged(self, took, table, share=1.0):
        facts = self.writers.end()
        table.registered_again(facts.pop("tokens"))
        wrongly, missed = table.judge(share)
        return Outcome(took, {**facts, "wrong rows": wrongly, "missed": missed})


class Registering:
    """Eight writers in a process of their own: a quarter of the registrations are of tokens on the list."""

    def __init__(self, ground, table):
        self.ground, self.facts = ground, None
        self.output = ground.folder / "writers.json"
        plan = ground.folder / "writers.plan"
        living = table.sql(
            f"SELECT {table.shape.hex} FROM {table.shape.table} WHERE id % {table.step} = 1 AND id <= "
            f"{1000 * table.step}")
        listed = [line.split()[1] for line in table.hexes.read_text().splitlines()]
        plan.write_text(json.dumps({"statement": table.shape.register, "writers": 8, "perSecond": 40,
                                    "listed": listed, "living": [row[0] for row in living]}))
        with open(self.output, "wb") as file:
            self.process = subprocess.Popen(
                [ground.python, ground.client("writers.py"), str(plan)], stdin=subprocess.DEVNULL,
                stdout=file, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1",
                                  **ground.account(table.database)})
        ground.processes.append(self.process)
        while not self.output.stat().st_size:
            if self.process.poll() is not None:
                raise Failure("the writers ended")
            time.sleep(0.01)

    def end(self):
        """Ends the writers once; returns what they measured."""
        if self.facts is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(120)
            told = json.loads(self.output.read_text().splitlines()[-1])
            if told["failures"]:
                raise Failure(f"a writer could not register: {told['failures'][0]}")
            waits = sorted(told["waits"])
            self.facts = {
                "registrations": len(waits), "longest wait ms": waits[-1] * 1000,
                "p99 ms": waits[int(len(waits) * 0.99)] * 1000, "tokens": told["tokens"]}
        return dict(self.facts)
