"""The token tables of the works that change rows, in two shapes: our own, and Django's.

Every tenth or so row is on the list of dead tokens. Of the list one in twenty registered again after the
signal, so that its row must live; a program that does not compare the two times takes it for dead.
"""

import random
import struct
import zlib
from dataclasses import dataclass

# One in so many tokens of the list came back.
CAME_BACK = 20
# Rows that are not on the list and that devices register again meanwhile.
LIVING = 1000


@dataclass(frozen=True)
class Shape:
    """One layout of the token table, and what its statements say."""

    table: str
    token: str  # of the number `seq`
    hex: str  # of the column
    column: str
    registered: str
    insert: str
    marked: str
    unmark: str
    index: tuple
    mapping: str
    # What an application writes when a device registers: token, time. A device that registers is living.
    register: str


OWN = Shape(
    table="active_users", token="UNHEX(SHA2(seq, 256))", hex="LOWER(HEX(device_token))",
    column="device_token", registered="registered_at",
    insert="(id, user_id, app_id, environment, device_token, registered_at) "
           "SELECT seq, CONCAT('user-', seq), 'chat', 'production', {token}, {registered}",
    marked="invalidated_at IS NOT NULL", unmark="invalidated_at = NULL, invalid_reason = NULL",
    index=("DROP INDEX device, DROP INDEX user",
           "ADD UNIQUE KEY device (device_token, app_id, environment), ADD KEY user (user_id)"),
    mapping="",
    register="INSERT INTO active_users (user_id, app_id, environment, device_token, registered_at) VALUES "
             "('again', 'chat', 'production', UNHEX(%s), %s) ON DUPLICATE KEY UPDATE registered_at = "
             "VALUES(registered_at), invalidated_at = NULL, invalid_reason = NULL")

DJANGO = Shape(
    table="push_notifications_apnsdevice", token="SHA2(seq, 256)", hex="registration_id",
    column="registration_id", registered="date_created",
    insert="(id, active, registration_id, date_created) SELECT seq, 1, {token}, {registered}",
    marked="active = 0", unmark="active = 1", index=(),
    mapping="  active-users:\n    table: push_notifications_apnsdevice\n    token: registration_id\n"
            "    app: none\n    registered-at: date_created\n"
            "    living: {column: active, living: 1, dead: 0}\n",
    register="INSERT INTO push_notifications_apnsdevice (active, registration_id, date_created) VALUES "
             "(1, %s, %s) ON DUPLICATE KEY UPDATE active = 1, date_created = VALUES(date_created)")


class TokenTable:
    """A database with one table of tokens, and a list of dead ones beside it."""

    def __init__(self, ground, shape, name, rows, listed):
        self.ground, self.shape, self.rows = ground, shape, rows
        self.database = ground.database(name)
        self.step = rows // listed
        self.make()
        self.fill()
        self.feed, self.hexes = ground.folder / f"{name}.feed", ground.folder / f"{name}.tokens"
        self.listed = self.write_list()

    def sql(self, text):
        return self.ground.sql(text, self.database)

    def number(self, text):
        return self.ground.number(text, self.database)

    def settings(self, app="", policy=""):
        """Settings of ours for this table, with a fresh state folder."""
        return self.ground.settings(app, self.ground.store(self.database, self.shape.mapping), policy)

    def make(self):
        if self.shape is DJANGO:
            self.ground.run(
                [self.ground.python, "-m", "django", "migrate", "--verbosity", "0"],
                env={**self.django_environment(), "PYTHONDONTWRITEBYTECODE": "1"})
            self.ground.pushsweep("schema", "apply", "--config", self.settings())
            return
        script = self.ground.folder / "schema.sql"
        self.ground.pushsweep("schema", "print", "--config", self.settings(), output=script)
        self.sql(script.read_text())

    def django_environment(self):
        return {**self.ground.account(self.database), "DJANGO_SETTINGS_MODULE": "django_settings",
                "PYTHONPATH": self.ground.client("")}

    def fill(self):
        """Rows registered in 2023, those that came back in 2025; the list is of June 2024 and later."""
        shape, step = self.shape, self.step
        registered = (f"IF(seq % {step * CAME_BACK} = 0, '2025-01-01', '2023-01-01') "
                      "+ INTERVAL seq % 8000000 SECOND")
        drop, add = shape.index or ("", "")
        if drop:
            self.sql(f"ALTER TABLE {shape.table} {drop}")
        self.sql(f"INSERT INTO {shape.table} " + shape.insert.format(token=shape.token, registered=registered)
                 + f" FROM seq_1_to_{self.rows}")
        if add:
            self.sql(f"ALTER TABLE {shape.table} {add}")
        self.sql(
            f"CREATE TABLE listed (PRIMARY KEY (token)) SELECT {shape.column} AS token, "
            f"CAST('2024-06-01' + INTERVAL id % 8000000 SECOND AS DATETIME(3)) AS dead, "
            f"id % {step * CAME_BACK} = 0 AS back FROM {shape.table} WHERE id % {step} = 0;"
            f"CREATE TABLE kept (PRIMARY KEY (id)) SELECT * FROM {shape.table} WHERE id % {step} = 0 "
            f"OR (id % {step} = 1 AND id <= {LIVING * step});"
            "CREATE TABLE again (PRIMARY KEY (token)) SELECT token FROM listed LIMIT 0;"
            f"ANALYZE TABLE {shape.table}, listed, kept")

    def write_list(self):
        """Writes the list as bytes of a feed and as hex, in the order in which a gateway would have it:
        none. Returns the number of tokens."""
        hexed = "token" if self.shape is DJANGO else "LOWER(HEX(token))"
        rows = self.sql(f"SELECT UNIX_TIMESTAMP(dead) DIV 1, {hexed}, back FROM listed")
        random.Random(1).shuffle(rows)
        with open(self.feed, "wb") as feed, open(self.hexes, "w") as hexes:
            for time, token, back in rows:
                feed.write(struct.pack("!IH", int(time), 32) + bytes.fromhex(token))
                hexes.write(f"{time} {token} {back}\n")
        return len(rows)

    def part(self, share):
        """Writes a list of that share of the tokens, those of some checksums; returns its path and the
        share that it came to."""
        if share == 1:
            return self.hexes, 1.0
        path, every = self.hexes.with_suffix(".part"), round(1 / share)
        code = str.encode if self.shape is DJANGO else bytes.fromhex
        lines = [line for line in self.hexes.read_text().splitlines(keepends=True)
                 if zlib.crc32(code(line.split()[1])) % every == 0]
        path.write_text("".join(lines))
        return path, len(lines) / self.listed

    def restore(self, timed=True):
        """Brings rows and our tables back to the state after `fill`; before a measurement of time the
        server finishes its own work on it."""
        table = self.shape.table
        self.sql(
            f"DELETE FROM {table} WHERE id > {self.rows};"
            f"DELETE t FROM {table} t JOIN kept k ON t.id = k.id;"
            f"INSERT INTO {table} SELECT * FROM kept; TRUNCATE again;"
            "TRUNCATE pushsweep_change; TRUNCATE pushsweep_part; TRUNCATE pushsweep_batch;")
        if self.shape is DJANGO:
            self.sql("DELETE FROM pushsweep_invalid")
        if timed:
            self.ground.settle()

    def registered_again(self, hexes):
        """Notes tokens that devices registered while a program worked."""
        token = "'{}'" if self.shape is DJANGO else "UNHEX('{}')"
        for start in range(0, len(hexes), 1000):
            values = ", ".join("(" + token.format(text) + ")" for text in hexes[start:start + 1000])
            self.sql(f"INSERT IGNORE INTO again VALUES {values}")

    def judge(self, share=1.0):
        """How many rows are wrong: marked or gone though the device registered after the signal, and
        living though it did not and the token was in the part."""
        shape = self.shape
        dead = f"(t.id IS NULL OR t.{shape.marked})"
        join = f"l LEFT JOIN {shape.table} t ON t.{shape.column} = l.token WHERE {dead}"
        wrongly = self.number(
            f"SELECT (SELECT COUNT(*) FROM listed {join} AND l.back AND l.token NOT IN "
            f"(SELECT token FROM again)) + (SELECT COUNT(*) FROM again {join})")
        missed = self.number(
            f"SELECT COUNT(*) FROM listed l JOIN {shape.table} t ON t.{shape.column} = l.token WHERE NOT l.back "
            f"AND NOT t.{shape.marked} AND l.token NOT IN (SELECT token FROM again) "
            f"AND CRC32(l.token) % {round(1 / share)} = 0")
        return wrongly, missed

    def close(self):
        self.sql(f"DROP DATABASE {self.database}")
        self.ground.databases.remove(self.database)
        self.feed.unlink(missing_ok=True)
        self.hexes.unlink(missing_ok=True)
