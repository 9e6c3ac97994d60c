"""Works that send, to the provider of apns-simulator: it checks each request as APNs does and counts it.

One notification in a hundred is to a token that is gone or wrong. The peers get tokens in a file. Pushsweep
claims rows of `push_queue`, compares each with the token table, and writes the results back.
"""

from ground import Gateway
from tokens import OWN, TokenTable
from work import Outcome, Peer, Work, wrong_facts

PAYLOAD = '{"aps":{"alert":"' + "x" * 180 + '"}}'
NO_QUEUE = "queue, result of each notification in the database, look into the token table, evidence"


class Send(Work):
    """A queue of 100,000 notifications, each to a device of its own."""

    needs_server = True

    def __init__(self, ground, scale):
        super().__init__(ground, scale)
        self.count = self.scaled(100_000)
        self.table = TokenTable(ground, OWN, self.name, self.count, self.count // 100)
        self.list = ground.folder / f"{self.name}.list"
        rows = self.table.sql("SELECT LOWER(HEX(device_token)) FROM active_users ORDER BY id")
        self.tokens = [row[0] for row in rows]
        self.payload = ground.folder / "payload"
        self.payload.write_text(PAYLOAD)
        self.output = ground.folder / "output"

    def given(self, peer):
        """The number of notifications that the peer gets; writes its tokens into the list."""
        count = max(100, int(self.count * peer.part))
        self.list.write_text("".join(f"{token}\n" for token in self.tokens[:count]))
        return count

    def reset(self, peer):
        for table in ("push_queue", "pushsweep_claim", "pushsweep_delivery"):
            self.table.sql(f"TRUNCATE {table}")
        self.table.restore()
        self.table.sql(
            "INSERT INTO push_queue (app_id, environment, device_token, payload, queued_at) SELECT 'chat', "
            f"'production', device_token, '{PAYLOAD}', UTC_TIMESTAMP(3) FROM active_users ORDER BY id;"
            "UPDATE active_users SET invalidated_at = NULL, invalid_reason = NULL; "
            "ANALYZE TABLE push_queue, active_users")

    def close(self):
        self.table.close()
        self.list.unlink(missing_ok=True)


class HTTP2(Send):
    name = "http2"
    what = "send 100,000 notifications over HTTP/2 to one gateway, of which 1 % are answered with 410"
    peers = (
        Peer("aioapns", ("module:aioapns",), NO_QUEUE,
             "sending from the memory of a program", "200 at a time", part=0.3),
        Peer("httpx", ("module:httpx", "module:jwt"), NO_QUEUE + ", all that is special to APNs",
             "requests of any kind", "100 at a time", part=0.05),
        Peer("h2load", ("program:h2load", "module:jwt"), NO_QUEUE + ", a use of the answers",
             note="the limit: it sends to 1,000 tokens in turn"),
    )

    def gateway(self):
        return Gateway(self.ground, "provider", "--share", "1=Unregistered@1700000000123")

    def theirs(self, peer):
        count = self.given(peer)
        with self.gateway() as gateway:
            first = gateway.first
            if peer.name == "h2load":
                words = self.h2load(gateway, count)
            else:
                words = [self.ground.python, self.ground.client(f"send_{peer.name}.py"), str(gateway.port),
                         first["ca"], first["token-key"], first["key-id"], first["team-id"], str(self.list)]
            took = self.ground.run(words, self.output)
            totals = gateway.stop()
        return self.counted(took * self.count / count, totals, count)

    def h2load(self, gateway, count):
        """Its words, with a provider token made outside of the time."""
        first = gateway.first
        self.ground.run([self.ground.python, self.ground.client("bearer.py"), first["token-key"],
                         first["key-id"], first["team-id"]], self.output)
        bearer = self.output.read_text().strip()
        uris = self.ground.folder / "uris"
        uris.write_text("".join(
            f"https://127.0.0.1:{gateway.port}/3/device/{token}\n" for token in self.tokens[:1000]))
        return ["h2load", "-n", str(count), "-c", "1", "-m", "1000", "-t", "1", "-i", uris, "-d", self.payload,
                "-H", f"authorization: {bearer}", "-H", "apns-topic: com.example.chat",
                "-H", "apns-push-type: alert", "-H", "apns-priority: 10"]

    def ours(self, peer):
        with self.gateway() as gateway:
            first = gateway.first
            settings = self.table.settings(
                f"    token-key: {{file: {first['token-key']}, key-id: {first['key-id']}, "
                f"team-id: {first['team-id']}}}\n"
                f"    provider: {{host: 127.0.0.1, port: {gateway.port}, ca: {first['ca']}}}\n")
            took = self.ground.pushsweep("send", "--config", settings, output=self.output)
            totals = gateway.stop()
        return self.counted(took, totals, self.count)

    def counted(self, took, totals, count):
        arrived = totals.get("requests", 0)
        wrong = {status: n for status, n in totals.get("answered", {}).items() if status not in ("200", "410")}
        fault = "" if arrived == count and not wrong else f"{arrived} of {count} arrived, refused: {wrong}"
        return Outcome(took, {}, fault)


class Binary(Send):
    name = "binary"
    what = "send 100,000 notifications over the binary interface, of which 1 % are to wrong tokens"
    peers = (
        Peer("apns3", ("module:apns3",), NO_QUEUE, note="its own resend ends with a TypeError"),
        Peer("apns3-by-hand", ("module:apns3",), NO_QUEUE + ", a resend",
             note="its caller sends again behind each error", part=0.02),
    )
    # Longer than this is given up: the library waits ten seconds and more after a broken connection.
    LIMIT = 60

    def __init__(self, ground, scale):
        super().__init__(ground, scale)
        self.known = ground.folder / "known"
        # The last of each hundred, so that a good one stands before the first bad one.
        self.known.write_text("".join(
            f"{token}\n" for number, token in enumerate(self.tokens, 1) if number % 100))

    def gateway(self):
        # A token dies after its first notification, so that a second one is counted as one to a dead token.
        return Gateway(self.ground, "binary", "--known", str(self.known), "--share", "100=dead:1")

    def theirs(self, peer):
        count = self.given(peer)
        with self.gateway() as gateway:
            first = gateway.first
            mode = "library" if peer.name == "apns3" else "by-hand"
            took = self.ground.run(
                [self.ground.python, self.ground.client("send_apns3.py"), mode, str(gateway.port),
                 first["certificate"], first["key"], str(self.list), str(self.LIMIT)],
                self.output)
            totals = gateway.stop()
        handed = int(self.output.read_text())
        outcome = self.counted(took * self.count / max(1, handed), totals, handed)
        if handed < count:
            outcome.fault = (f"ended after {self.LIMIT} s with {handed:,} of {count:,} handed over; its "
                             "seconds are those of all at this speed")
        elif outcome.facts["lost"]:
            outcome.fault = f"lost {outcome.facts['lost']:,} of {count:,} notifications"
        return outcome

    def ours(self, peer):
        with self.gateway() as gateway:
            first = gateway.first
            settings = self.table.settings(
                f"    certificate: {{file: {first['certificate']}, key: {first['key']}}}\n"
                f"    binary: {{host: 127.0.0.1, port: {gateway.port}, ca: {first['ca']}}}\n")
            took = self.ground.pushsweep("send", "--config", settings, output=self.output)
            totals = gateway.stop()
        outcome = self.counted(took, totals, self.count)
        outcome.fault = wrong_facts(outcome.facts, "lost", "twice")
        return outcome

    def counted(self, took, totals, count):
        """What arrived: of each hundred one is wrong and 99 should arrive once."""
        good = count - count // 100
        twice = totals.get("dead", 0)
        lost = max(0, good - (totals.get("accepted", 0) - twice))
        return Outcome(took, {"lost": lost, "twice": twice})
