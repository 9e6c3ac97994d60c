"""Marks the tokens of a list as the tutorials do, one UPDATE for each: MODE LIST.

`each` commits each of them and asks for no registration. `transaction` sends the same statements in one
transaction and compares the registration. A line of the list has a time and a token in hex.
"""

import datetime
import os
import sys

import MySQLdb

mode, path = sys.argv[1:]
database = MySQLdb.connect(
    unix_socket=os.environ["PEER_SOCKET"], user=os.environ["PEER_USER"], passwd=os.environ["PEER_PASSWORD"],
    db=os.environ["PEER_DATABASE"])
database.autocommit(mode == "each")
statement = ("UPDATE active_users SET invalidated_at = %s, invalid_reason = 'feedback' WHERE device_token = %s "
             "AND app_id = 'chat' AND environment = 'production'")
if mode == "transaction":
    statement += " AND registered_at <= %s"
cursor = database.cursor()
with open(path) as lines:
    for line in lines:
        seconds, token, _ = line.split()
        time = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).replace(tzinfo=None)
        values = (time, bytes.fromhex(token))
        cursor.execute(statement, values + ((time,) if mode == "transaction" else ()))
database.commit()
