"""What all works stand on: a folder, the private MariaDB, our programs, and the simulated gateways."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from work import Failure

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Ground:
    """Opened once for a run; its folder and databases are gone at the end."""

    def __init__(self, venv):
        self.venv = Path(venv)
        self.programs = Path(os.environ.get("PUSHSWEEP_TEST_PROGRAMS", ROOT / ".build/release")).resolve()
        for name in ("pushsweep", "apns-simulator"):
            if not os.access(self.programs / name, os.X_OK):
                raise Failure(f"PUSHSWEEP_TEST_PROGRAMS has no {name}; build both programs for release")
        self.folder = Path(tempfile.mkdtemp(prefix="pushsweep-peers-"))
        self.databases, self.processes = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # A program that still works would hold its tables, and the folder has keys and a password.
        try:
            for process in self.processes:
                if process.poll() is None:
                    self.kill(process)
            for database in self.databases:
                self.sql(f"DROP DATABASE IF EXISTS {database}")
        except (Failure, OSError):
            say("its databases could not be dropped; the private server ends with the run")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    # Programs

    @property
    def python(self):
        """The interpreter that has the packages of PyPI."""
        return str(self.venv / "bin/python")

    def client(self, name):
        """A program in which a peer does the work."""
        return str(HERE / "clients" / name)

    def program(self, name):
        """A program of ours."""
        return str(self.programs / name)

    def missing(self, needs):
        """The first of the needs that is not there, or None."""
        for need in needs:
            kind, name = need.split(":", 1)
            if kind == "program" and not shutil.which(name):
                return f"{name} is not installed"
            if kind == "module" and not self.has_module(name):
                return f"{name} could not be installed from PyPI"
        return None

    def has_module(self, name):
        """Whether the interpreter of the peers has the module."""
        if not Path(self.python).exists():
            return False
        look = f"import importlib.util as u, sys; sys.exit(not u.find_spec({name!r}))"
        return subprocess.run([self.python, "-c", look], capture_output=True).returncode == 0

    def start(self, words, output=None, env=None):
        """Starts a program in a session of its own, so that all of it can be ended."""
        self.errors = self.folder / "errors"
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output or subprocess.DEVNULL,
            stderr=open(self.errors, "wb"), cwd=self.folder, start_new_session=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})})
        self.processes = [known for known in self.processes if known.poll() is None] + [process]
        return process

    def run(self, words, output=None, env=None, limit=900):
        """Runs a program and returns the seconds of its whole life."""
        began = time.perf_counter()
        with open(output or os.devnull, "wb") as file:
            process = self.start(words, file, env)
            # A wait with a limit would look in steps of up to 50 ms.
            watch = threading.Timer(limit, self.kill, [process])
            watch.start()
            try:
                code = process.wait()
            finally:
                watch.cancel()
                if process.poll() is None:
                    self.kill(process)
            took = time.perf_counter() - began
        # Its words may have a password, and its errors paths of this machine; neither belongs into a table.
        name = next((Path(word).name for word in words if str(word).endswith((".py", ".php"))),
                    Path(words[0]).name)
        if took >= limit:
            raise Failure(f"{name} did not end within {limit} s")
        if code:
            say(f"{name}: {self.errors.read_text(errors='replace').strip()[-500:]}")
            raise Failure(f"{name} ended with {code}")
        return took

    def run_telling(self, words, sign, output):
        """Runs a program; returns the seconds until it wrote a line with the sign to stderr, and those of
        its whole life."""
        began, seen = time.perf_counter(), None
        with open(output, "wb") as file:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, cwd=self.folder)
            for line in process.stderr:
                if seen is None and sign.encode() in line:
                    seen = time.perf_counter() - began
            code = process.wait()
        if code or seen is None:
            raise Failure(f"{Path(words[0]).name} ended with {code} and never said '{sign}'")
        return seen, time.perf_counter() - began

    @staticmethod
    def kill(process):
        """Ends a program and what it started, with -9."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    # The server

    @staticmethod
    def value(name):
        """A fact about the private server, as scripts/bench exports it."""
        try:
            return os.environ[f"PUSHSWEEP_TEST_MARIADB_{name}"]
        except KeyError:
            raise Failure("there is no private MariaDB; run scripts/bench peers") from None

    def sql(self, text, database="mysql"):
        """Runs statements; returns the rows of all, as lists of texts."""
        done = subprocess.run(
            ["mariadb", "--no-defaults", "--socket", self.value("SOCKET"), "--user", self.value("USER"),
             "--batch", "--skip-column-names", "--init-command", "SET time_zone = '+00:00'", database],
            input=text.encode(), capture_output=True,
            env={**os.environ, "MYSQL_PWD": self.value("PASSWORD")})
        if done.returncode:
            reason = done.stderr.decode().strip().splitlines()[-1:]
            raise Failure(f"MariaDB refused a statement: {' '.join(reason)}")
        return [line.split("\t") for line in done.stdout.decode().splitlines()]

    def number(self, text, database):
        """The one number that a query returns."""
        return int(self.sql(text, database)[0][0])

    def database(self, name):
        """Makes a database, and returns its name."""
        full = f"ps_peers_{os.getpid()}_{name}"
        self.sql(f"CREATE OR REPLACE DATABASE {full}")
        if full not in self.databases:
            self.databases.append(full)
        return full

    def account(self, database):
        """The environment in which a client of a peer finds the server."""
        return {"PEER_SOCKET": self.value("SOCKET"), "PEER_USER": self.value("USER"),
                "PEER_PASSWORD": self.value("PASSWORD"), "PEER_DATABASE": database}

    def settle(self):
        """Waits until the server has purged old rows and written its pages, so that no run is slowed
        by the one before it."""
        usual = self.sql("SELECT @@innodb_max_dirty_pages_pct")[0][0]
        self.sql("SET GLOBAL innodb_max_dirty_pages_pct = 0")
        for _ in range(600):
            rows = self.sql(
                "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_buffer_pool_pages_dirty', "
                "'Innodb_history_list_length')")
            if all(int(row[1]) <= 200 for row in rows):
                break
            time.sleep(0.1)
        self.sql(f"SET GLOBAL innodb_max_dirty_pages_pct = {usual}")

    # Our settings

    def settings(self, app="", store=None, policy=""):
        """Writes a settings file with a fresh state folder; returns its path. The guard is told to let
        the set pass, because a work of this size would wait for a person. Without a store the tables are
        in an empty SQLite file."""
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        for file in self.folder.glob("tokens.sqlite*"):
            file.unlink()
        place = self.folder / "pushsweep.yaml"
        place.write_text(
            f"state: {self.folder}/state\n{store or 'store: {url: sqlite://tokens.sqlite}'}\n"
            f"guard: {{floor: 1000000000}}\n{policy}\napps:\n"
            f"  - name: chat\n    topic: com.example.chat\n    environment: production\n{app}")
        return str(place)

    def store(self, database, mapping=""):
        """The part of the settings about a database of the private server."""
        secret = self.folder / "password"
        secret.touch(mode=0o600)
        secret.write_text(self.value("PASSWORD"))
        return (f"store:\n  url: mysql+unix://{self.value('SOCKET')}?db={database}"
                f"&user={self.value('USER')}\n  password-file: {secret}\n  read-timeout: 1h\n{mapping}")

    def pushsweep(self, *words, output=None):
        """Runs our program and returns the seconds of its whole life."""
        return self.run([self.program("pushsweep"), *words], output=output)


class Gateway:
    """A listener of apns-simulator in a process of its own."""

    def __init__(self, ground, kind, *options):
        self.lines = ground.folder / f"gateway-{kind}"
        with open(self.lines, "wb") as file:
            self.process = ground.start(
                [ground.program("apns-simulator"), kind, "--port", "0", "--directory",
                 str(ground.folder / "certificates"), *options], file)
        for _ in range(2000):
            text = self.lines.read_text()
            if "\n" in text or self.process.poll() is not None:
                break
            time.sleep(0.005)
        if "\n" not in text:
            say(f"apns-simulator: {ground.errors.read_text(errors='replace').strip()[-500:]}")
            Ground.kill(self.process)
            raise Failure("apns-simulator did not say where it listens")
        self.first = json.loads(text.splitlines()[0])
        self.port = int(self.first["listening"].rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends it; returns what it counted."""
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            Ground.kill(self.process)
            raise Failure("apns-simulator did not end within 60 s of SIGTERM") from None
        return next((line["totals"] for line in map(json.loads, self.lines.read_text().splitlines())
                     if "totals" in line), {})


def say(text):
    """Tells a person how far the run is."""
    print(f"peers: {text}", file=sys.stderr, flush=True)
