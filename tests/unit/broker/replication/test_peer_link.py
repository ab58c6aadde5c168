"""The connection of a member to another one, under virtual time: how soon it tries again."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from cometmq.broker.replication.group.greeting import OwnGreeting
from cometmq.broker.replication.group.peer_link import PeerLink, PeerTransport
from cometmq.broker.settings.group_keys import PeerAddress
from cometmq.net.loop import loop_clock, loop_network
from cometmq.net.network import Accepted


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
        link = PeerLink(
            "n1", PeerAddress("127.0.0.1", bound.port), OwnGreeting("g", "n0", 1, "127.0.0.1:10911", None),
            uses=PeerTransport(None, None, pool), clock=clock, on_refused=refused,
            on_places=lambda _places: None, on_listed=lambda: None,
        )  # fmt: skip
        link.start()
        at = await asyncio.wait_for(refused_at, 10)
        await link.close()
    assert at - came[0] == pytest.approx(0.06, abs=0.01)
