"""The services of a broker that the methods of the proxy call; they belong to its current role."""

from typing import NamedTuple

from cometmq.broker.admin.offsets import CommittedOffsets, QueueOffsets
from cometmq.broker.basic_answers import pulls_of
from cometmq.broker.members.heartbeats import Heartbeats
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.pop.feature import PopFeature
from cometmq.broker.pull.pulls import Pulls
from cometmq.broker.retry.requests import RetryHandler
from cometmq.broker.retry.retries import Retries
from cometmq.broker.role import RunningRole
from cometmq.broker.send.sends import Sends
from cometmq.broker.timer.feature import Timer
from cometmq.broker.timer.recall import Recall
from cometmq.broker.transactions.feature import Transactions
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.statuses import ProxyRefusal


class RoleServices(NamedTuple):
    """The parts of a master broker that the methods of the proxy call."""

    parts: Parts
    sends: Sends
    pop: PopFeature
    retries: Retries
    recall: Recall
    transactions: Transactions
    pulls: Pulls
    committed: CommittedOffsets
    queue_offsets: QueueOffsets
    heartbeats: Heartbeats


def services_of(role: RunningRole) -> RoleServices:
    """Return the services of a master; raise ProxyRefusal (HA_NOT_AVAILABLE) for a slave, or while the role changes."""
    found: dict[type[Feature], Feature] = {type(each): each for each in role.features}
    pop, retries = found.get(PopFeature), found.get(RetryHandler)
    timer, transactions = found.get(Timer), found.get(Transactions)
    if (
        role.parts.settings.is_slave
        or not isinstance(pop, PopFeature)
        or not isinstance(retries, RetryHandler)
        or not isinstance(timer, Timer)
        or not isinstance(transactions, Transactions)
    ):
        raise ProxyRefusal(
            pb.HA_NOT_AVAILABLE,
            "this broker is a slave, or its role is being changed; ask the master",
        )
    parts = role.parts
    return RoleServices(
        parts,
        role.sends,
        pop,
        retries.retries,
        timer.recall,
        transactions,
        pulls_of(parts),
        CommittedOffsets(parts),
        QueueOffsets(parts.store),
        Heartbeats(parts, announce=role.tell_nameservers),
    )
