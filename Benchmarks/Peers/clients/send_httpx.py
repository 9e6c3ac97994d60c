"""Sends to each token of a list with httpx over HTTP/2: PORT CA KEY KEYID TEAM LIST."""

import asyncio
import ssl
import sys

import httpx

from bearer import bearer

port, authority, key, key_id, team, path = sys.argv[1:]
PAYLOAD = b'{"aps":{"alert":"' + b"x" * 180 + b'"}}'


async def main():
    headers = {"authorization": bearer(key, key_id, team), "apns-topic": "com.example.chat",
               "apns-push-type": "alert", "apns-priority": "10"}
    gate = asyncio.Semaphore(100)
    async with httpx.AsyncClient(
            http2=True, verify=ssl.create_default_context(cafile=authority), headers=headers, timeout=60,
            base_url=f"https://127.0.0.1:{port}") as client:

        async def send(token):
            async with gate:
                return (await client.post(f"/3/device/{token}", content=PAYLOAD)).status_code

        with open(path) as lines:
            answers = await asyncio.gather(*[send(line.strip()) for line in lines])
    print({status: answers.count(status) for status in set(answers)})


asyncio.run(main())
