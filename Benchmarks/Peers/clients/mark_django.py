"""Lets django-push-notifications do what it does after a sending in which APNs answered Unregistered: LIST.

The sending itself is left out: `_send_bulk_request` returns the answers of the list at once. What follows is
its own code, one call of `apns_send_bulk_message`. Tokens whose device came back are answered with success,
as APNs does at the moment of sending. With a second word it asks the table first, as its next sending would.
"""

import sys

import django

django.setup()

from aioapns.common import NotificationResult  # noqa: E402
from push_notifications import apns_async  # noqa: E402
from push_notifications.models import APNSDevice  # noqa: E402

with open(sys.argv[1]) as lines:
    listed = [line.split() for line in lines]
dead = {token for _, token, back in listed if back == "0"}


async def answers(registration_ids, **_):
    return [
        (token, NotificationResult("", "410", description="Unregistered") if token in dead
         else NotificationResult("", "200")) for token in registration_ids]


apns_async._send_bulk_request = answers
tokens = [token for _, token, _ in listed]
if sys.argv[2:]:
    active = set(APNSDevice.objects.filter(active=True).values_list("registration_id", flat=True))
    tokens = [token for token in tokens if token in active]
try:
    if tokens:
        apns_async.apns_send_bulk_message(registration_ids=tokens, alert="hi")
except apns_async.APNSError:
    pass  # it raises after its UPDATE, because some answers were no success
