"""Reads a feedback list and marks its tokens in the form of the tutorials: PORT CERTIFICATE KEY.

All tuples are read into a list, then each gets an UPDATE with its own commit.
"""

import datetime
import os
import socket
import ssl
import struct
import sys

import MySQLdb

port, certificate, key = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.load_cert_chain(certificate, key)
received = bytearray()
with context.wrap_socket(socket.create_connection(("127.0.0.1", int(port)))) as gateway:
    while data := gateway.recv(65536):
        received += data
database = MySQLdb.connect(
    unix_socket=os.environ["PEER_SOCKET"], user=os.environ["PEER_USER"], passwd=os.environ["PEER_PASSWORD"],
    db=os.environ["PEER_DATABASE"])
database.autocommit(True)
cursor = database.cursor()
for seconds, _, token in struct.iter_unpack("!IH32s", received):
    time = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).replace(tzinfo=None)
    cursor.execute(
        "UPDATE active_users SET invalidated_at = %s, invalid_reason = 'feedback' WHERE device_token = %s "
        "AND app_id = 'chat' AND environment = 'production'", (time, token))
