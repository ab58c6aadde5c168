"""The connection of a member to another one, under virtual time: how soon it tries again, and when it is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from cometmq.broker.replication.group.greeting import Challenge, KnownPlaces, OwnGreeting
from cometmq.broker.replication.group.peer_link import PeerLink, PeerTransport
from cometmq.broker.settings.group_keys import PeerAddress
from cometmq.net.loop import loop_clock, loop_network
from cometmq.net.network import Accepted
from cometmq.replication.group.wire import GroupFrames


def link_to(
    port: int,
    pool: ThreadPoolExecutor,
    *,
    on_refused: Callable[[str], None] = lambda _member: None,
    on_places: Callable[[KnownPlaces], None] = lambda _places: None,
) -> PeerLink:
    return PeerLink(
        "n1", PeerAddress("127.0.0.1", port), OwnGreeting("g", "n0", 1, "127.0.0.1:10911", None),
        uses=PeerTransport(None, None, pool), clock=loop_clock(), on_refused=on_refused,
        on_places=on_places, on_listed=lambda: None,
    )  # fmt: skip


async def test_a_process_that_still_accepts_while_it_ends_is_soon_asked_again():
    """Only a refused connection says that it is gone, and it refuses none before its port is closed."""
    clock, refused_at = loop_clock(), asyncio.get_running_loop().create_future()
    bound = loop_network().bind("127.0.0.1", 0)
    came: list[float] = []

    def reset(accepted: Accepted) -> None:
        came.append(clock.monotonic())
        accepted.close()
        if len(came) == 2:
            bound.close()

    def refused(_member: str) -> None:
        if not refused_at.done():
            refused_at.set_result(clock.monotonic())

    bound.listen(reset)
    with ThreadPoolExecutor(1) as pool:
        link = link_to(bound.port, pool, on_refused=refused)
        link.start()
        at = await asyncio.wait_for(refused_at, 10)
        await link.close()
    assert at - came[0] == pytest.approx(0.06, abs=0.01)


class Peer(asyncio.Protocol):
    """A member that accepts n0."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport, self.frames = transport, GroupFrames()
        self.challenge = Challenge(OwnGreeting("g", "n1", 1, "127.0.0.1:10912", None))
        self.transport.writelines(self.challenge.challenge())

    def data_received(self, data: bytes) -> None:
        for frame in self.frames.received(data):
            _, welcome = self.challenge.hello(frame, frozenset({"n0", "n1"}), KnownPlaces())
            self.transport.writelines(welcome)


async def test_a_link_has_no_error_from_the_moment_at_which_it_carries_messages():
    """A leader may be elected over it at once, and asked why the other member does not answer."""
    opened = asyncio.get_running_loop().create_future()
    bound = loop_network().bind("127.0.0.1", 0)
    attached: list[asyncio.Task[None]] = []
    bound.listen(
        lambda accepted: attached.append(asyncio.ensure_future(accepted.attach(Peer())))
    )
    with ThreadPoolExecutor(1) as pool:
        link = link_to(
            bound.port, pool, on_places=lambda _: opened.set_result((link.is_open, link.error))
        )
        link.start()
        assert await asyncio.wait_for(opened, 10) == (True, None)
        await link.close()
    bound.close()
