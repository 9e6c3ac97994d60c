#!/usr/bin/env python3
"""A network between two servers of a private cluster that can be cut without root:

    cluster_link.py PORT TARGET

relays each connection to PORT on 127.0.0.1 to TARGET. SIGUSR1 cuts: nothing passes any more, no end is told of
the other's end, a new connection is taken and hears nothing. SIGUSR2 mends: what was open at the cut is reset on
both sides, what was sent meanwhile is lost, and new connections pass. So each side may be left in the middle of a
statement, or without the answer of a COMMIT, as by a broken cable."""
import asyncio
import signal
import socket
import struct
import sys

RESET = struct.pack("ii", 1, 0)


class Link:
    def __init__(self, target):
        self.target = target
        self.whole = asyncio.Event()
        self.whole.set()
        self.open = set()

    def cut(self):
        self.whole.clear()

    def mend(self):
        for writer in self.open:
            reset(writer)
        self.whole.set()

    async def serve(self, reader, writer):
        ends = [writer]
        self.open.add(writer)
        try:
            await self.whole.wait()
            other_reader, other = await asyncio.open_connection("127.0.0.1", self.target)
            ends.append(other)
            self.open.add(other)
            pumps = [asyncio.ensure_future(self.pump(reader, other)),
                     asyncio.ensure_future(self.pump(other_reader, writer))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
        except OSError:
            # The target is down.
            pass
        finally:
            await self.whole.wait()
            for end in ends:
                self.open.discard(end)
                end.close()

    async def pump(self, reader, writer):
        try:
            while data := await reader.read(1 << 16):
                if self.whole.is_set():
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass


def reset(writer):
    """Ends a connection as a host does that knows nothing of it."""
    if name := writer.get_extra_info("socket"):
        name.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


async def main():
    port, target = (int(word) for word in sys.argv[1:])
    link, loop = Link(target), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, link.cut)
    loop.add_signal_handler(signal.SIGUSR2, link.mend)
    server = await asyncio.start_server(link.serve, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
