"""The configuration of a consumer group, such as its permission to consume and its retries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Settings of a consumer group (SubscriptionGroupConfig of RocketMQ 5.3.3).

    Attributes:
        name: Name of the group.
        consume_enabled: Whether the group may consume at all.
        consume_from_min_enabled: Kept for the wire, without effect.
        broadcast_enabled: Whether members may consume in broadcasting mode.
        orderly: Whether gRPC clients (5.x) pop messages in order; for other clients only kept for the wire.
        retry_queues: Number of queues with which the retry topic is created; 0: messages sent back become dead letters.
        retry_max_times: Retries before a message sent back becomes a dead letter, unless the consumer sends its own limit.
        retry_policy: Kept in wire form.
        broker_id: Id of the member of a broker group to read from normally, if slaves may be read; 0 is the master.
        slow_broker_id: The same when the consumer is far behind.
        notify_changes: Whether members are notified of changes in the membership.
        sys_flag: Unit bits.
        consume_timeout_minutes: Kept for the wire.
        attributes: Further attributes (5.x).
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
