"""The configuration of a consumer group: whether and from where it may read, and its retries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Settings of a consumer group (SubscriptionGroupConfig of RocketMQ 5.3.3).

    Attributes:
        name: the group.
        consume_enabled: whether it may pull at all.
        consume_from_min_enabled: kept for the wire; RocketMQ reads it nowhere since 4.0.
        broadcast_enabled: whether members may consume in broadcasting mode.
        orderly: whether messages are popped in order (5.x).
        retry_queues: queues of the retry topic.
        retry_max_times: tries before a message goes to the dead-letter topic.
        retry_policy: as the wire has it, kept whole.
        broker_id: where to read from as a rule.
        slow_broker_id: where to read from when far behind.
        notify_changes: whether members are told when membership changes.
        sys_flag: unit bits.
        consume_timeout_minutes: after this a message that is still being consumed is sent back.
        attributes: free attributes (5.x).
    """

    name: str
    consume_enabled: bool = True
    consume_from_min_enabled: bool = True
    broadcast_enabled: bool = True
    orderly: bool = False
    retry_queues: int = 1
    retry_max_times: int = 16
    retry_policy: Mapping[str, Any] = field(default_factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: int = 0
    slow_broker_id: int = 1
    notify_changes: bool = True
    sys_flag: int = 0
    consume_timeout_minutes: int = 15
    attributes: Mapping[str, str] = field(default_factory=dict)
