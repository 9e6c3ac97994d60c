"""Works that read: a feedback list, a list of tokens, a log."""

import json
import os
import random
import re

from ground import Gateway
from tokens import TokenTable, OWN
from work import Outcome, Peer, Work

# The time of a line, whatever stands around it.
TIME = re.compile(rb"[ ,]17\d{11}\D")
NO_JOURNAL = "journal: what it read is gone if it is killed; ledger, guard, undo"
UNTIL_SYNCED = "ours until the last byte is synced; the whole sweep, which sorts and compares, is beside it"


def app_with_feedback(gateway):
    """The lines of the settings that name a feedback gateway."""
    first = gateway.first
    return (f"    certificate: {{file: {first['certificate']}, key: {first['key']}}}\n"
            f"    feedback: {{host: 127.0.0.1, port: {gateway.port}, ca: {first['ca']}, max-bytes: 16GiB}}\n")


class Feed(Work):
    """A list of the simulated gateway, over TLS, to the last tuple."""

    name = "feed"
    what = "read a feedback list of a million tuples over TLS"
    peers = (
        Peer("apns3", ("module:apns3",), NO_JOURNAL, note=UNTIL_SYNCED),
        Peer("php", ("program:php",), NO_JOURNAL, note=UNTIL_SYNCED),
    )

    def __init__(self, ground, scale):
        super().__init__(ground, scale)
        self.tuples = self.scaled(1_000_000)
        self.output = ground.folder / "output"

    def gateway(self):
        return Gateway(self.ground, "feedback", "--generate", str(self.tuples), "--seed", "7")

    def theirs(self, peer):
        with self.gateway() as gateway:
            where = ["127.0.0.1", str(gateway.port), gateway.first["certificate"], gateway.first["key"]]
            words = (["php", "-d", "display_errors=stderr", self.ground.client("feed.php")] if peer.name == "php"
                     else [self.ground.python, self.ground.client("feed_apns3.py")])
            took = self.ground.run(words + where, self.output)
        return self.counted(took, int(self.output.read_text()))

    def ours(self, peer):
        with self.gateway() as gateway:
            settings = self.ground.settings(app_with_feedback(gateway))
            self.ground.pushsweep("schema", "apply", "--create-token-table", "--config", settings)
            # All bytes are durable in the journal when it says so. Then it compares each with the table.
            took, whole = self.ground.run_telling(
                [self.ground.program("pushsweep"), "sweep", "--config", settings, "--format", "json",
                 "--verbose"], "feed read", self.output)
        outcome = self.counted(took, found(json.loads(self.output.read_text()), "tuples"))
        outcome.facts["whole sweep s"] = whole
        return outcome

    def counted(self, took, count):
        fault = "" if count == self.tuples else f"read {count} of {self.tuples} tuples"
        return Outcome(took, {"tuples": count}, fault)


def found(value, name):
    """The first number of a name in a document, however deep."""
    if isinstance(value, dict):
        if isinstance(value.get(name), int):
            return value[name]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            number = found(item, name)
            if number is not None:
                return number
    return None


class Filter(Work):
    """A list of all tokens of a table; a tenth of them must not be sent to."""

    name = "filter"
    what = "filter 5 million tokens of which 475,000 are stale"
    needs_server = True
    LACKS = "the token table: somebody has to make the list of stale tokens"
    NOTE = "the making of its list is not in its seconds"
    peers = (
        Peer("grep", ("program:grep",), LACKS, "lines of any kind",
             NOTE + "; a longer list makes it slower still", part=0.1),
        Peer("mlr", ("program:mlr",), LACKS, "records of any kind", NOTE),
        Peer("sqlite3", ("program:sqlite3",), LACKS, "queries of any kind", NOTE),
        Peer("duckdb", ("module:duckdb",), LACKS, "queries of any kind",
             NOTE + "; all cores; its lines come in another order"),
    )

    def __init__(self, ground, scale):
        super().__init__(ground, scale)
        self.table = TokenTable(ground, OWN, "filter", self.scaled(5_000_000), self.scaled(500_000))
        self.table.sql("UPDATE active_users SET invalidated_at = '2024-06-01', invalid_reason = "
                       "'Unregistered' WHERE id % 10 = 0 AND registered_at < '2024-01-01'")
        self.tokens, self.stale = ground.folder / "all", ground.folder / "stale"
        self.output = ground.folder / "output"
        self.total = self.write(self.tokens, "1")
        self.left = self.total - self.write(self.stale, "invalidated_at IS NOT NULL")

    def write(self, path, condition):
        rows = self.table.sql(
            f"SELECT LOWER(HEX(device_token)) FROM active_users WHERE {condition} ORDER BY id")
        path.write_text("".join(f"{row[0]}\n" for row in rows))
        return len(rows)

    def beginning(self, share):
        """Writes the first tokens and those of them that are stale; returns both files, and the number of
        tokens that may be sent to."""
        tokens = self.tokens.read_text().splitlines(keepends=True)[:int(self.total * share)]
        stale = set(self.stale.read_text().splitlines(keepends=True)).intersection(tokens)
        files = self.tokens.with_suffix(".part"), self.stale.with_suffix(".part")
        for path, lines in zip(files, (tokens, stale)):
            path.write_text("".join(lines))
        return *files, len(tokens) - len(stale)

    def theirs(self, peer):
        if peer.name == "grep":
            tokens, stale, left = self.beginning(peer.part)
            took = self.ground.run(
                ["grep", "-v", "-F", "-f", stale, tokens], self.output, env={"LC_ALL": "C"})
            return self.counted(took / peer.part, left)
        words = {
            "mlr": ["mlr", "--csv", "--implicit-csv-header", "--headerless-csv-output", "join", "--np",
                    "--ur", "-j", "1", "-f", self.stale, self.tokens],
            "sqlite3": ["sqlite3", ":memory:", "CREATE TABLE t(token TEXT)",
                        "CREATE TABLE s(token TEXT PRIMARY KEY) WITHOUT ROWID",
                        f".import {self.tokens} t", f".import {self.stale} s",
                        "SELECT token FROM t WHERE token NOT IN (SELECT token FROM s)"],
            "duckdb": [self.ground.python, self.ground.client("filter_duckdb.py"), self.tokens, self.stale],
        }[peer.name]
        return self.counted(self.ground.run(words, self.output), self.left)

    def ours(self, peer):
        settings = self.ground.settings(store=self.ground.store(self.table.database))
        return self.counted(self.ground.pushsweep(
            "preflight", "--filter", "--read-only", "--tokens-from", str(self.tokens), "--config", settings,
            output=self.output), self.left)

    def counted(self, took, wanted):
        with open(self.output, "rb") as file:
            lines = sum(1 for _ in file)
        fault = "" if lines == wanted else f"passed {lines} lines in place of {wanted}"
        return Outcome(took, {}, fault)

    def close(self):
        self.table.close()
        for path in (self.tokens, self.stale, self.output):
            path.unlink(missing_ok=True)


class Log(Work):
    """The log of a sender, one JSON object a line."""

    name = "log"
    what = "read a log of a million JSON lines of which half are a 410"
    LACKS = "journal, compare with the registration, ledger, guard, quarantine of bad lines: it prints"
    peers = (Peer("jq", ("program:jq",), LACKS, "any transformation"),
             Peer("mlr", ("program:mlr",), LACKS, "any transformation"),
             Peer("duckdb", ("module:duckdb",), LACKS, "queries of any kind",
                  "all cores; it is told names and types of the fields"))

    def __init__(self, ground, scale):
        super().__init__(ground, scale)
        self.lines = self.scaled(1_000_000)
        self.log, self.output = ground.folder / "push.log", ground.folder / "output"
        draw = random.Random(1)
        with open(self.log, "w") as file:
            for line in range(self.lines):
                status, reason = (410, '"Unregistered"') if line % 2 == 0 else (200, "null")
                file.write(
                    f'{{"level":"error","device":"{draw.getrandbits(256):064x}","status":{status},'
                    f'"reason":{reason},"timestamp":{1_700_000_000_000 + line},"message":"push to a device"}}\n')

    def theirs(self, peer):
        words = {
            "jq": ["jq", "-c", "select(.status == 410) | [.device, .timestamp]", self.log],
            "mlr": ["mlr", "--ijson", "--ojson", "--no-jvstack", "filter",
                    "$status == 410", "then", "cut", "-o", "-f", "device,timestamp", self.log],
            "duckdb": [self.ground.python, self.ground.client("log_duckdb.py"), self.log],
        }[peer.name]
        took = self.ground.run(words, self.output)
        with open(self.output, "rb") as file:
            return self.counted(took, sum(1 for line in file if TIME.search(line)))

    def ours(self, peer):
        settings = self.ground.settings()
        self.ground.pushsweep("schema", "apply", "--create-token-table", "--config", settings)
        took = self.ground.pushsweep(
            "import", str(self.log), "--from", "jsonl", "--config", settings, "--format", "json", "--map",
            "token=.device,time=.timestamp,status=.status,reason=.reason", output=self.output)
        return self.counted(took, found(json.loads(self.output.read_text()), "tuples"))

    def counted(self, took, count):
        wanted = (self.lines + 1) // 2
        return Outcome(took, {}, "" if count == wanted else f"found {count} of {wanted} answers 410")

    def close(self):
        os.unlink(self.log)
