"""Sends to each token of a list with apns3 in its enhanced mode: MODE PORT CERTIFICATE KEY LIST SECONDS.

`library` leaves it to the library to send again what stood behind a bad notification. `by-hand` does not:
the program begins again behind the identifier that the library's listener told. Prints how many were handed
over within the seconds.
"""

import logging
import os
import sys
import threading
import time

import apns3_tls
import apns3

mode, port, certificate, key, path, limit = sys.argv[1:]
WAIT = 1.0
logging.disable(logging.CRITICAL)
# The library's thread ends with an exception at each resend; the next notification starts another one.
threading.excepthook = lambda _: None
payload = apns3.Payload(alert="x" * 180)
expiry = int(time.time()) + 3600
with open(path) as file:
    tokens = file.read().split()
handed = 0


def connect():
    gateway = apns3.APNs(cert_file=certificate, key_file=key, enhanced=True).gateway_server
    gateway.server, gateway.port = "127.0.0.1", int(port)
    return gateway


def library():
    global handed
    gateway = connect()
    for number, token in enumerate(tokens, 1):
        gateway.send_notification(token, payload, number, expiry)
        handed = number
    time.sleep(WAIT)


def by_hand():
    global handed
    while handed < len(tokens):
        told, answers, gateway = threading.Event(), [], connect()

        def listen(answer):
            answers.append(answer["identifier"])
            told.set()

        gateway.register_response_listener(listen)
        for number in range(handed + 1, len(tokens) + 1):
            gateway.send_notification(tokens[number - 1], payload, number, expiry)
            if told.is_set():
                break
        handed = answers[0] if told.wait(WAIT) else len(tokens)


sender = threading.Thread(target=library if mode == "library" else by_hand, daemon=True)
sender.start()
sender.join(float(limit))
print(handed, flush=True)
os._exit(0)  # its threads wait for more
