"""Sends to each token of a list with aioapns: PORT CA KEY KEYID TEAM LIST."""

import asyncio
import logging
import ssl
import sys

from aioapns import APNs, NotificationRequest, PushType
from aioapns.connection import APNsProductionClientProtocol

port, authority, key, key_id, team, path = sys.argv[1:]
logging.disable(logging.CRITICAL)
# Where its gateway is, is no setting of the library.
APNsProductionClientProtocol.APNS_SERVER = "127.0.0.1"
APNsProductionClientProtocol.APNS_PORT = int(port)
MESSAGE = {"aps": {"alert": "x" * 180}}


async def nothing(*_):
    """Keeps the library from writing a line for each refusal."""


async def main():
    with open(key) as file:
        text = file.read()
    context = ssl.create_default_context(cafile=authority)
    context.set_alpn_protocols(["h2"])
    client = APNs(key=text, key_id=key_id, team_id=team, topic="com.example.chat", err_func=nothing,
                  ssl_context=context)
    gate = asyncio.Semaphore(200)

    async def send(token):
        async with gate:
            return (await client.send_notification(NotificationRequest(
                device_token=token, message=MESSAGE, push_type=PushType.ALERT))).status

    with open(path) as lines:
        answers = await asyncio.gather(*[send(line.strip()) for line in lines])
    print({status: answers.count(status) for status in set(answers)})


asyncio.run(main())
