"""Subjects of administration, with both faces of the admin client."""

from typing import assert_type

from cometmq import (
    Admin,
    AsyncAdmin,
    Message,
    MessageQueue,
    Producer,
    SendResult,
    StoredMessage,
)
from cometmq.admin import (
    DeadLetterCount,
    GroupConfig,
    GroupState,
    TopicConfig,
    TopicState,
)


def blocking(nameserver: str) -> None:
    """Create, show and change topics and groups, and find messages."""
    with Producer(nameserver) as producer:
        sent = producer.send(Message("typed", b"1", keys="k-1"))
        assert_type(sent, SendResult)
    with Admin(nameserver) as admin:
        assert_type(admin.topics.create("typed_made", queues=2), dict[str, TopicConfig])
        assert_type(admin.topics.list(), list[str])
        assert_type(admin.topics.show("typed"), TopicState)
        admin.groups.create(GroupConfig("typed_made"))
        assert_type(admin.groups.show("typed_made"), GroupState)
        assert_type(admin.groups.list(), list[GroupState])
        committed = admin.offsets.committed("typed_made", "typed")
        assert_type(committed, dict[MessageQueue, int | None])
        assert_type(admin.messages.by_id("typed", sent.message_id), StoredMessage | None)
        assert_type(admin.dead_letters.list(), list[DeadLetterCount])


async def with_asyncio(nameserver: str) -> None:
    """Read the brokers and the health of a cluster."""
    async with AsyncAdmin(nameserver) as admin:
        states = await admin.brokers.list()
        assert [state.broker_name for state in states] != []
        findings = await admin.health.check()
        assert all(finding.check for finding in findings)
        assert_type(await admin.topics.list(), list[str])
        await admin.topics.delete("typed_made")
