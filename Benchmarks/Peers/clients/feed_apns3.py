"""Reads a feedback list with apns3 and prints how many tuples it had: HOST PORT CERTIFICATE KEY."""

import sys

import apns3_tls
import apns3

host, port, certificate, key = sys.argv[1:]
apns = apns3.APNs(cert_file=certificate, key_file=key)
feedback = apns.feedback_server
feedback.server, feedback.port = host, int(port)
count = 0
for token, time in feedback.items():
    count += 1
print(count)
