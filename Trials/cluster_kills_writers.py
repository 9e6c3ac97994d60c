"""Devices that register on the other nodes of a Galera cluster while a run changes rows of the same tokens.

Each writer has tokens of its own, so the order of a token's registrations is known. It sends one statement at a
time through a client that ends at the first error, and begins again on another node. A registration whose answer
did not come is `unclear`: it may have happened."""
import subprocess
import threading

from cluster_kills_stage import DATABASE, ENV, START, token

# Later than all evidence of the feed.
LATER = START + 7_200


class Registrations:
    """Registrations of tokens, in random order, again and again, by writers on the other nodes, until they are
    stopped."""

    def __init__(self, cluster, writers, tokens, random):
        self.cluster, self.writers = cluster, writers
        self.numbers = [list(tokens[writer::writers]) for writer in range(writers)]
        for numbers in self.numbers:
            random.shuffle(numbers)
        # The last acknowledged time of each token, and later ones whose fate is not known.
        self.known, self.unclear = {}, {}
        self.lock, self.is_over, self.threads = threading.Lock(), threading.Event(), []

    def __enter__(self):
        for writer in range(self.writers):
            self.threads.append(threading.Thread(target=self.write, args=(writer,)))
            self.threads[-1].start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        # Reads of the first node see all of it from now on. A node that is far behind on a busy machine gives up
        # after some time (1205).
        self.cluster.sql_patiently("SET SESSION wsrep_sync_wait = 1; SELECT 1")

    def client(self, turn):
        node = self.cluster.nodes[1 + turn % (len(self.cluster.nodes) - 1)]
        return subprocess.Popen(
            ["mariadb", "--no-defaults", "-N", "-B", "-n", "--connect-timeout=2", "--user=pushsweep_test",
             "--socket=" + self.cluster.variable(node, "SOCKET"), DATABASE],
            env=dict(ENV, MYSQL_PWD=self.cluster.password), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)

    def write(self, writer):
        numbers, turn, step, client = self.numbers[writer], writer, 0, None
        while not self.is_over.is_set():
            if client is None:
                client = self.client(turn)
            number, at = numbers[step % len(numbers)], LATER + step
            done = self.register(client, number, at)
            with self.lock:
                if done:
                    self.known[number] = at
                    self.unclear.pop(number, None)
                else:
                    self.unclear.setdefault(number, set()).add(at)
            step += 1
            if not done:
                client.kill()
                client.wait()
                client, turn = None, turn + 1
                self.is_over.wait(0.05)
        if client is not None:
            client.kill()
            client.wait()

    @staticmethod
    def register(client, number, at):
        """Whether the server acknowledged it."""
        try:
            client.stdin.write(
                "SET time_zone = '+00:00'; INSERT INTO active_users (user_id, app_id, environment, device_token, "
                f"registered_at) VALUES ('w', 'chat', 'production', X'{token(number).hex()}', FROM_UNIXTIME({at})) "
                "ON DUPLICATE KEY UPDATE registered_at = VALUES(registered_at); SELECT 'done';\n")
            client.stdin.flush()
            return client.stdout.readline() == "done\n"
        except (BrokenPipeError, OSError):
            return False

    @property
    def touched(self):
        return set(self.known) | set(self.unclear)

    def problems(self, rows):
        """What is wrong about the registrations. `rows` are the token, registration and mark of every row, in
        seconds; the mark is NULL where there is none."""
        found = {row[0]: row[1:] for row in rows}
        lost = dead = 0
        for number, at in self.known.items():
            registered, mark = found.get(token(number).hex().upper(), ("0", "NULL"))
            times = {at} | {t for t in self.unclear.get(number, ()) if t > at}
            if int(registered) not in times:
                lost += 1
            elif mark != "NULL" and int(mark) >= int(registered):
                dead += 1
        return [f"{count} {what}" for count, what in (
            (lost, "acknowledged registrations are not in the table"), (dead, "registered devices are marked dead")
        ) if count]
