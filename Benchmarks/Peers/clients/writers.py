"""Registers devices as an application does, in several threads at a fixed rate, until SIGTERM: PLAN.

The plan is JSON: `statement` with token and time, `writers`, `perSecond` of each, `listed` and `living`
tokens. A quarter of the registrations are of listed tokens, a quarter of new ones. A wait is the time of one
registration, its repetitions after a deadlock included. All writers draw the same in each run.
"""

import datetime
import json
import os
import random
import signal
import sys
import threading
import time

import MySQLdb

with open(sys.argv[1]) as file:
    plan = json.load(file)
over = threading.Event()
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: over.set())
waits, tokens, failures = [], set(), []


def connect():
    connection = MySQLdb.connect(
        unix_socket=os.environ["PEER_SOCKET"], user=os.environ["PEER_USER"],
        passwd=os.environ["PEER_PASSWORD"], db=os.environ["PEER_DATABASE"])
    connection.autocommit(True)
    return connection


def token(draw):
    kind = draw.randrange(4)
    if kind == 0:
        return draw.choice(plan["listed"])
    return f"{draw.getrandbits(256):064x}" if kind == 1 else draw.choice(plan["living"])


def register(cursor, text):
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    while True:
        try:
            cursor.execute(plan["statement"], (text, now))
            return
        except MySQLdb.OperationalError as error:
            if error.args[0] not in (1205, 1213):
                raise


def write(number, connection):
    draw, cursor = random.Random(number), connection.cursor()
    pause = 1 / plan["perSecond"]
    due = time.perf_counter() + draw.random() * pause
    try:
        while not over.wait(max(0, due - time.perf_counter())):
            text = token(draw)
            began = time.perf_counter()
            register(cursor, text)
            waits.append(time.perf_counter() - began)
            tokens.add(text)
            due += pause
    except MySQLdb.Error as error:
        failures.append(str(error))


threads = [threading.Thread(target=write, args=(number, connect())) for number in range(plan["writers"])]
for thread in threads:
    thread.start()
print("ready", flush=True)
for thread in threads:
    thread.join()
print(json.dumps({"waits": waits or [0], "tokens": sorted(tokens), "failures": failures}))
