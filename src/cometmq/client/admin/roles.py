"""Plans of promotions in a group of CometMQ brokers: the messages that a promotion would lose, and its obstacles.

Before a promotion, a master that answers is demoted: it becomes a slave once its successor has everything, so no
stored message is lost. If the master does not answer, only the slave's messages are kept.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cometmq.client.admin.copies import ReplicaCopy
from cometmq.codec.bodies.ha_status import STOPPED_WORDS
from cometmq.model.text import plural

ROLE, DEFAULT_ROLE = "brokerRole", "ASYNC_MASTER"


class Promotion(NamedTuple):
    """A planned promotion: which slave becomes the master, and what is lost by it.

    Attributes:
        broker_name: Name of the broker group.
        broker_id: Present id of the slave.
        address: Address of the slave.
        role: The brokerRole that it gets.
        master: Address of the present master; None if no nameserver lists one.
        is_master_told: Whether the master answered, so that it can hand over everything and become a slave.
        losses: What is lost or may be, as sentences; empty: nothing.
        obstacles: Why it should not be done, as sentences; `force` does it all the same.
    """

    broker_name: str
    broker_id: int
    address: str
    role: str
    master: str | None
    is_master_told: bool
    losses: tuple[str, ...]
    obstacles: tuple[str, ...]


def losses_of(
    slave: ReplicaCopy,
    copies: Sequence[ReplicaCopy],
    master: ReplicaCopy | None,
    *,
    is_told: bool,
) -> tuple[list[str], list[str]]:
    """Return the losses and the obstacles if a slave becomes the master, as sentences.

    Args:
        slave: The slave.
        copies: All members of its broker group.
        master: The present master; None if no nameserver lists one.
        is_told: Whether the master answers.
    """
    obstacles = []
    # A slave of a master that is gone does not copy either.
    if slave.fault and STOPPED_WORDS in slave.fault:
        obstacles.append(f"The slave does not replicate: {slave.fault}.")
    if is_told:
        return [], obstacles
    status = slave.member.status
    copied = None if status is None else status.master
    lost = (
        f"The master does not answer: its log after physical offset {slave.offset} is lost. With SYNC_MASTER it "
        "acknowledged these messages only if this slave was not in sync."
    )
    losses = [lost]
    if copied is not None and copied.metadata_error:
        losses.append(
            f"Topics, groups and offsets are older than the log: {copied.metadata_error}. Topics with newer messages are "
            "created again, and groups consume messages again."
        )
    for other in copies:
        more = (other.offset or 0) - (slave.offset or 0)
        if other.member.broker_id and other.member is not slave.member and more > 0:
            obstacles.append(
                f"The slave with the id {other.member.broker_id} has {more} {plural(more, 'byte')} more of the log."
            )
    if master is not None:
        obstacles.append(
            f"The master {master.member.address} is registered but does not answer ({master.fault}); it may still "
            "accept messages from clients that can reach it."
        )
    return losses, obstacles
