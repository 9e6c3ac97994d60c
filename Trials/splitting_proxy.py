"""A proxy between Pushsweep and a primary with a replica, without TLS. It sends a SELECT outside of a
transaction that locks nothing to the replica, as ProxySQL's and MaxScale's splitting rules do, and all else to
the primary. Where the replica cannot be reached, or `splits` is false, its reads go to the primary too, also in
the middle of a connection.

  login      the primary answers; the replica gets the same bytes when the first SELECT goes there. So the
             account must have no password
  SET        to both
  prepared   at the primary; at the replica too when it is first executed there

It can end all connections, at once or at the next COMMIT."""
import select
import socket
import struct
import threading

QUERY, PREPARE, EXECUTE, CLOSE, QUIT = 0x03, 0x16, 0x17, 0x19, 0x01


class Gone(Exception):
    """An end of a conversation is closed."""


def read(end, count):
    data = b""
    while len(data) < count:
        try:
            some = end.recv(count - len(data))
        except OSError as error:
            raise Gone from error
        if not some:
            raise Gone
        data += some
    return data


def packet(end):
    """The next packet with its header."""
    head = read(end, 4)
    return head + read(end, int.from_bytes(head[:3], "little"))


def send(end, data):
    try:
        end.sendall(data)
    except OSError as error:
        raise Gone from error


class Proxy:
    """Listens on `port` until the process ends. `reads` counts the SELECTs that the replica answered."""

    def __init__(self, primary, replica):
        self.primary, self.replica = primary, replica
        self.splits, self.ends_commit, self.reads = True, None, 0
        self.lock, self.open = threading.Lock(), set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        conversation = Conversation(self, self.keep(client))
        try:
            conversation.run()
        except Gone:
            pass
        finally:
            for end in (client, conversation.primary, conversation.replica):
                self.drop(end)

    def connect(self, port):
        try:
            end = socket.create_connection(("127.0.0.1", port), timeout=2)
        except OSError as error:
            raise Gone from error
        end.settimeout(None)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.keep(end)

    def keep(self, end):
        with self.lock:
            self.open.add(end)
        return end

    def drop(self, end):
        with self.lock:
            self.open.discard(end)
        if end:
            end.close()

    def end_all(self):
        """Ends every connection, as a proxy that is started again."""
        with self.lock:
            for end in self.open:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class Conversation:
    """One client's."""

    def __init__(self, proxy, client):
        self.proxy, self.client, self.primary, self.replica = proxy, client, None, None
        self.in_transaction, self.login, self.sets = False, b"", []
        # The text of each prepared statement, and the replica's number of it, by the primary's number.
        self.texts, self.numbers = {}, {}

    def run(self):
        self.primary = self.proxy.connect(self.proxy.primary)
        send(self.client, packet(self.primary))
        self.login = packet(self.client)
        # CLIENT_DEPRECATE_EOF.
        self.has_no_marks = bool(self.login[7] & 0x01)
        send(self.primary, self.login)
        self.relay(self.primary)
        while True:
            self.handle(packet(self.client))

    def relay(self, server):
        """Relays what a server answers until the client sends its next command; says whether it
        answered at all. The end of the replica is an error only in the middle of an answer."""
        began = False
        while True:
            ready, _, _ = select.select([server, self.client], [], [])
            if server not in ready:
                return True
            try:
                data = server.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                if began or server is self.primary:
                    raise Gone
                return False
            began = True
            send(self.client, data)

    def handle(self, command):
        kind, body = command[4], command[5:]
        if kind == QUIT:
            raise Gone
        if kind == CLOSE:
            number, = struct.unpack_from("<I", body)
            self.texts.pop(number, None)
            self.numbers.pop(number, None)
            return send(self.primary, command)
        if kind == QUERY:
            return self.query(command, body.decode("utf-8", "replace"))
        if kind == PREPARE:
            return self.prepare(command, body.decode("utf-8", "replace"))
        if kind == EXECUTE:
            number, = struct.unpack_from("<I", body)
            text = self.texts.get(number, "")
            if self.goes_to_replica(text) and self.execute_there(command, number, text):
                return None
        send(self.primary, command)
        return self.relay(self.primary)

    def goes_to_replica(self, text):
        return (self.proxy.splits and not self.in_transaction and text.startswith("SELECT")
                and not text.endswith(("FOR UPDATE", "LOCK IN SHARE MODE")))

    def query(self, command, text):
        if text.startswith("START TRANSACTION"):
            self.in_transaction = True
        if text in ("COMMIT", "ROLLBACK"):
            self.in_transaction = False
        ends = self.proxy.ends_commit if text == "COMMIT" else None
        if ends == "before":
            self.proxy.end_all()
        if text.startswith("SET"):
            self.sets.append(command)
            if self.replica:
                self.ask_replica(command)
        if self.goes_to_replica(text) and self.reach_replica() and self.answered_there(command):
            return
        send(self.primary, command)
        if ends == "after":
            packet(self.primary)
            self.proxy.end_all()
        self.relay(self.primary)

    def prepare(self, command, text):
        send(self.primary, command)
        answer = packet(self.primary)
        if answer[4] == 0:
            self.texts[struct.unpack_from("<I", answer, 5)[0]] = text
        send(self.client, answer)
        self.relay(self.primary)

    # The replica. Its loss is no error while the client has heard nothing of its answer.

    def reach_replica(self):
        """Logs in at the replica, unless that is done; says whether it is there."""
        if self.replica:
            return True
        self.numbers = {}
        try:
            self.replica = self.proxy.connect(self.proxy.replica)
            packet(self.replica)
            send(self.replica, self.login)
            if packet(self.replica)[4] != 0:
                raise Gone
        except Gone:
            self.lose_replica()
            return False
        return all(self.ask_replica(command) for command in self.sets)

    def ask_replica(self, command):
        """Sends a command whose answer is one packet, which nobody needs."""
        try:
            send(self.replica, command)
            packet(self.replica)
            return True
        except Gone:
            self.lose_replica()
            return False

    def lose_replica(self):
        self.proxy.drop(self.replica)
        self.replica = None

    def answered_there(self, command):
        try:
            send(self.replica, command)
        except Gone:
            self.lose_replica()
            return False
        if self.relay(self.replica):
            with self.proxy.lock:
                self.proxy.reads += 1
            return True
        self.lose_replica()
        return False

    def execute_there(self, command, number, text):
        if not self.reach_replica():
            return False
        try:
            if number not in self.numbers:
                self.numbers[number] = self.prepare_there(text)
        except Gone:
            self.lose_replica()
            return False
        return self.answered_there(command[:5] + struct.pack("<I", self.numbers[number]) + command[9:])

    def prepare_there(self, text):
        """Prepares a statement at the replica, and drops the answer but for its number."""
        body = bytes([PREPARE]) + text.encode()
        send(self.replica, len(body).to_bytes(3, "little") + b"\0" + body)
        answer = packet(self.replica)
        if answer[4] != 0:
            # It does not know the table yet, or is ending.
            raise Gone
        number, columns, places = struct.unpack_from("<IHH", answer, 5)
        for count in (places, columns):
            for _ in range(count + (0 if self.has_no_marks or not count else 1)):
                packet(self.replica)
        return number
