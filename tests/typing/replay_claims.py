"""Claims on dead letters, with both faces of the ledger's client."""

from typing import assert_type

from cometmq import Admin
from cometmq.admin import GroupConfig
from cometmq.connect import AsyncReplayClaims, LetterId, ReplayClaims


def blocking(nameserver: str) -> None:
    """Claim nothing."""
    with Admin(nameserver) as admin:
        admin.groups.create(GroupConfig("typed_replay"))
    with ReplayClaims(nameserver, group="typed_replay") as claims:
        assert_type(claims.take("run-1", []), set[LetterId])
        claims.end()


async def with_asyncio(nameserver: str) -> None:
    """The same, awaited."""
    async with AsyncReplayClaims(nameserver, group="typed_replay") as claims:
        assert_type(await claims.take("run-2", []), set[LetterId])
        await claims.end()
