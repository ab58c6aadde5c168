"""Changes of roles in a group of CometMQ brokers: what a promotion would lose, and the steps of it at the brokers.

Before a promotion, a master that answers is demoted: it becomes a slave once its successor has everything, so no
stored message is lost. If the master does not answer, only what the slave has is kept.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from cometmq.client.admin.copies import ReplicaCopy, ask_replicas, judge_copies
from cometmq.client.api.broker import BrokerApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.codec.bodies.ha_status import STOPPED_WORDS
from cometmq.codec.headers.replication import RoleChange, RoleChanged
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    CometError,
    NetError,
    RequestError,
)
from cometmq.model.route import MASTER_ID
from cometmq.model.text import in_quotes, plural

_ROLE, _DEFAULT_ROLE = "brokerRole", "ASYNC_MASTER"
# How often a slave is asked whether it became the master, if its answer was lost.
_LOOKS, _LOOK_SECONDS = 10, 1.0


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


class Roles:
    """Changes the roles of CometMQ brokers in broker groups."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._brokers = BrokerApi(instance)

    async def plan(
        self, broker_name: str, broker_id: int | None = None, *, role: str | None = None
    ) -> Promotion:
        """Plan the promotion of a slave, by default the one with the largest offset, without changing anything.

        Raises BrokerNotFound if there is no such group, or no such slave that answers.
        """
        copies = await self._copies(broker_name)
        members = [each for each in copies if each.member.owner is None]
        slaves = [each for each in members if each.member.status and each.member.broker_id]
        if broker_id is not None:
            slaves = [each for each in slaves if each.member.broker_id == broker_id]
        if not slaves:
            what = "no slave" if broker_id is None else f"no slave with the id {broker_id}"
            raise BrokerNotFound(
                f"broker {broker_name}: {what} answers; cometmq cluster replicas shows the members"
            )
        slave = max(slaves, key=lambda each: each.offset or 0)
        masters = [each for each in members if each.member.broker_id == MASTER_ID]
        master = masters[0] if masters else None
        is_told = master is not None and master.member.status is not None
        if is_told and role is None:
            assert master is not None
            role = (await self._brokers.settings(master.member.address)).values.get(_ROLE)
        losses, obstacles = _losses(slave, copies, master, is_told=is_told)
        return Promotion(
            broker_name, slave.member.broker_id, slave.member.address, role or _DEFAULT_ROLE,
            master.member.address if master else None, is_told, tuple(losses), tuple(obstacles),
        )  # fmt: skip

    async def _copies(self, broker_name: str) -> list[ReplicaCopy]:
        members = await ask_replicas(self._instance)
        copies = [
            each for each in judge_copies(members) if each.member.broker_name == broker_name
        ]
        if not copies:
            there = ", ".join(sorted({each.broker_name for each in members})) or "none"
            raise BrokerNotFound(
                f"no broker {in_quotes(broker_name)} is registered; registered are: {there}"
            )
        return copies

    async def promote(self, plan: Promotion, *, is_forced: bool) -> None:
        """Make the slave of a plan the master, after the master, if it answered when planned, has become a slave.

        Raises:
            RequestError: There are obstacles, and `is_forced` is False.
            BrokerRefused: A broker refused; usually the roles are as before.
            NetError: A broker did not answer; roles may have changed.
        """
        if plan.obstacles and not is_forced:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"{plan.broker_name}: {' '.join(plan.obstacles)}"
            )
        wish = RoleChange(
            master_address=plan.address, master_broker_id=plan.broker_id, broker_id=MASTER_ID,
            broker_role=plan.role, is_forced=is_forced,
        )  # fmt: skip
        if plan.is_master_told:
            assert plan.master is not None
            await self._hand_over(plan, plan.master, wish)
        else:
            await self._brokers.change_role(plan.address, wish)

    async def _hand_over(self, plan: Promotion, master: str, wish: RoleChange) -> None:
        """Make the present master a slave, then the slave the master; if the slave refuses, try to undo that, and raise."""
        new_id = await self._free_id(plan.broker_name)
        handed = await self._brokers.change_role(
            master,
            RoleChange(
                master_address=plan.address, master_broker_id=plan.broker_id, broker_id=new_id
            ),
        )
        wish = _with_end(wish, handed)
        try:
            await self._brokers.change_role(plan.address, wish)
        except BrokerRefused as refused:
            await self._brokers.change_role(master, wish)
            raise BrokerRefused(
                refused.code, f"{refused.remark}; {master} is the master again", plan.address
            ) from None
        except NetError as error:
            await self._settle(plan, master, error)

    async def _settle(self, plan: Promotion, master: str, error: NetError) -> None:
        """Find out whether a slave whose answer was lost is the master; raise NetError if not, or if that is unknown."""
        for _ in range(_LOOKS):
            try:
                if (await self._brokers.ha_status(plan.address)).is_master:
                    return
            except CometError:
                pass
            await asyncio.sleep(_LOOK_SECONDS)
        raise NetError(
            f"{plan.address} did not confirm that it is the master: {error}. It and {master}, the former master, may both "
            f"be slaves now; cometmq cluster replicas shows them, and cometmq cluster promote {plan.broker_name} "
            "makes one the master"
        )

    async def demote(
        self,
        broker_name: str,
        *,
        address: str | None = None,
        successor: int | None = None,
    ) -> RoleChanged:
        """Make a master a slave once `successor`, if given, has everything; return its new id and its log's end."""
        new_id = await self._free_id(broker_name)
        if address is None:
            address = await self._instance.nameserver_api.member(broker_name)
        return await self._brokers.change_role(
            address, RoleChange(master_broker_id=successor, broker_id=new_id)
        )

    async def _free_id(self, broker_name: str) -> int:
        claims = await self._instance.nameserver_api.claims()
        taken = {broker_id for name, broker_id, _ in claims if name == broker_name}
        if not taken:
            await self._instance.nameserver_api.member(broker_name)  # Says who is there.
        return next(number for number in range(1, len(taken) + 2) if number not in taken)


def _with_end(wish: RoleChange, handed: RoleChanged) -> RoleChange:
    return RoleChange(
        master_address=wish.master_address, master_broker_id=wish.master_broker_id, broker_id=wish.broker_id,
        broker_role=wish.broker_role, log_end=handed.log_end, is_forced=wish.is_forced,
    )  # fmt: skip


def _losses(
    slave: ReplicaCopy,
    copies: Sequence[ReplicaCopy],
    master: ReplicaCopy | None,
    *,
    is_told: bool,
) -> tuple[list[str], list[str]]:
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
