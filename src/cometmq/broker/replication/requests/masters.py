"""Sends a slave's requests to its master."""

from collections.abc import Callable

from cometmq.broker.registration.requests import NameserverChannels
from cometmq.broker.replication.metadata import AskMaster
from cometmq.broker.tables.table_copies import TABLES
from cometmq.codec.remoting import Command
from cometmq.net.channel import Channel
from cometmq.net.channels import Channels

# Timeout for an answer; BrokerOuterAPI waits 3 s, for tables a tenth as large.
TIMEOUT_MS = 10_000


def asking_master(channels: Channels) -> AskMaster:
    """Return a function that sends requests to a master; the owner of the channels closes them, which ends all requests."""
    calls = NameserverChannels(channels)
    return lambda address, code, fields, done: calls(
        address, code, dict(fields), b"", timeout_ms=TIMEOUT_MS, done=done
    )


def told_by_master(look: Callable[[], None]) -> Callable[[Command, Channel], None]:
    """Return the handler of a master's notifications, which calls `look` if one is about a table."""

    def told(command: Command, _channel: Channel) -> None:
        if command.code in TABLES:
            look()

    return told
