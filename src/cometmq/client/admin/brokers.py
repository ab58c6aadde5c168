"""Brokers and nameservers, as `AsyncAdmin.brokers`: members, settings, replication, roles, and key-value configuration."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cometmq.client.admin.absent import AbsentBroker, missing_brokers
from cometmq.client.admin.copies import (
    ReplicaCopy,
    is_refusal,
    judge_copies,
    settled_replicas,
)
from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.admin.roles import DEFAULT_ROLE, ROLE, Promotion, losses_of
from cometmq.client.admin.states import BrokerState
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.broker import SettingsReport
from cometmq.client.results import Replica
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.stats import StatsWindows
from cometmq.codec.headers.replication import GroupMembers, RoleChange
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    CometError,
    NetError,
    RequestError,
    SettingsError,
    TopicNotFound,
)
from cometmq.model.flags import is_writable
from cometmq.model.names import ORDER_NAMESPACE
from cometmq.model.route import MASTER_ID, BrokerData
from cometmq.model.text import in_quotes

_ORDER = re.compile(r"[^:;\s]+:[1-9][0-9]{0,4}(;[^:;\s]+:[1-9][0-9]{0,4})*")
# How often a slave is asked whether it became the master, if its answer was lost.
_LOOKS, _LOOK_SECONDS = 10, 1.0


class AsyncBrokerAdmin(AsyncNoun):
    """The methods that show and change brokers of a cluster, and the key-value configuration of its nameservers."""

    _noun = "brokers"

    async def cluster(self) -> ClusterInfo:
        """Return the clusters with their brokers that the nameserver knows."""
        return await self._live.nameserver_api.cluster()

    async def missing(self) -> list[AbsentBroker]:
        """Return the broker groups that left and that the nameserver remembers; empty if it returns no valid list, as RocketMQ's."""
        return await missing_brokers(self._live)

    async def runtime(self, broker_name: str, broker_id: int = MASTER_ID) -> dict[str, str]:
        """Return the runtime values of a broker by RocketMQ's names; raise BrokerNotFound if it is not registered."""
        address = await self._member(broker_name, broker_id)
        return await self._brokers.runtime(address)

    async def settings(self, broker_name: str, broker_id: int = MASTER_ID) -> SettingsReport:
        """Return the settings that are in effect at a broker; raise BrokerNotFound if it is not registered."""
        address = await self._member(broker_name, broker_id)
        return await self._brokers.settings(address)

    async def _member(self, broker_name: str, broker_id: int = MASTER_ID) -> str:
        """Return the address of a broker; the error for one that left its nameserver says so."""
        try:
            return await self._live.nameserver_api.member(broker_name, broker_id)
        except BrokerNotFound as error:
            for each in await self.missing():
                if each.name == broker_name:
                    raise BrokerNotFound(f"{error}; {each}") from None
            raise

    async def stats(self, broker_name: str, name: str, key: str) -> StatsWindows:
        """Return sums and rates of a statistic such as `TOPIC_PUT_NUMS` at a master, for its last minute, hour and day.

        Raises BrokerNotFound if the master is not registered, and BrokerRefused if it has no such statistic or key.
        """
        address = await self._member(broker_name)
        return await self._brokers.stats(address, name, key)

    async def drain(self, broker_name: str) -> int:
        """Remove write permission from a broker's routes, so that producers avoid it; return the number of its topics.

        Its messages can still be consumed. This lasts until `undrain`, until a nameserver restarts, or until the broker
        returns after it was gone or registers changed topics. Raises BrokerNotFound if no such master is registered.
        """
        await self._live.nameserver_api.member(broker_name)
        return await self._live.nameserver_api.wipe_write_perm(broker_name)

    async def undrain(self, broker_name: str) -> int:
        """Make all of a broker's routes readable and writable; return the number of its topics, or raise BrokerNotFound."""
        await self._live.nameserver_api.member(broker_name)
        return await self._live.nameserver_api.add_write_perm(broker_name)

    async def replicas(self) -> list[Replica]:
        """Return each member of each broker group, sorted by name and id, with its replication status or an error.

        A second broker that claims the id of a member has an `owner`; it is left out if it does not answer.
        """
        nameservers = self._live.nameserver_api
        owners = {
            (name, broker_id): address
            for name, group in (await nameservers.cluster()).brokers.items()
            for broker_id, address in group.addresses.items()
        }
        members = {(*place, address) for place, address in owners.items()}
        for name, broker_id, address in sorted(await nameservers.claims()):
            owners.setdefault((name, broker_id), address)
            members.add((name, broker_id, address))
        asked = sorted(members)
        said = await side_by_side(self._brokers.ha_status, [each[2] for each in asked])
        found = []
        for member, answer in zip(asked, said, strict=True):
            owner = owners[member[:2]]
            replica = Replica(*member, None, owner=None if member[2] == owner else owner)
            if not isinstance(answer, CometError):
                found.append(replica._replace(status=answer))
            elif replica.owner is None or is_refusal(
                answer
            ):  # A rival that does not answer is not reported.
                found.append(replica._replace(error=str(answer), is_refused=is_refusal(answer)))
        return found

    async def copies(self) -> list[ReplicaCopy]:
        """Return the members of all broker groups, and rivals for their ids, with the state of their copies of the log.

        A rival that does not answer is left out. If a slave seems late, all are queried again after 2 s.
        """
        return judge_copies(await settled_replicas(self.replicas))

    async def promotion(
        self, broker_name: str, broker_id: int | None = None, *, role: str | None = None
    ) -> Promotion:
        """Return what promoting a slave to master would do and what would be lost by it, without doing it.

        Args:
            broker_name: The broker group.
            broker_id: Id of the slave; None: the one with the largest offset.
            role: SYNC_MASTER or ASYNC_MASTER; None: that of the present master if it answers, otherwise ASYNC_MASTER.

        Raises:
            BrokerNotFound: No such group is registered, or no such slave answers.
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
            role = (await self._brokers.settings(master.member.address)).values.get(ROLE)
        losses, obstacles = losses_of(slave, copies, master, is_told=is_told)
        return Promotion(
            broker_name, slave.member.broker_id, slave.member.address, role or DEFAULT_ROLE,
            master.member.address if master else None, is_told, tuple(losses), tuple(obstacles),
        )  # fmt: skip

    async def _copies(self, broker_name: str) -> list[ReplicaCopy]:
        members = await self.replicas()
        copies = [
            each for each in judge_copies(members) if each.member.broker_name == broker_name
        ]
        if not copies:
            there = ", ".join(sorted({each.broker_name for each in members})) or "none"
            raise BrokerNotFound(
                f"no broker {in_quotes(broker_name)} is registered; registered are: {there}"
            )
        return copies

    async def promote(
        self,
        broker_name: str,
        broker_id: int | None = None,
        *,
        role: str | None = None,
        force: bool = False,
    ) -> Promotion:
        """Make a running CometMQ slave the master; a present master that answers hands over everything and becomes a slave.

        Args:
            broker_name: The broker group.
            broker_id: Id of the slave; None: the one with the largest offset.
            role: SYNC_MASTER or ASYNC_MASTER; None: as for `promotion`.
            force: Do it also if there are obstacles (`Promotion.obstacles`).

        Raises:
            BrokerNotFound: No such group is registered, or no such slave answers.
            RequestError: There are obstacles.
            BrokerRefused: A broker cannot change its role now; usually all have their old roles.
            NetError: A broker did not answer; the group may have no master now.
        """
        plan = await self.promotion(broker_name, broker_id, role=role)
        if plan.obstacles and not force:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"{plan.broker_name}: {' '.join(plan.obstacles)}"
            )
        wish = RoleChange(
            master_address=plan.address, master_broker_id=plan.broker_id, broker_id=MASTER_ID,
            broker_role=plan.role, is_forced=force,
        )  # fmt: skip
        if plan.is_master_told:
            assert plan.master is not None
            await self._hand_over(plan, plan.master, wish)
        else:
            await self._brokers.change_role(plan.address, wish)
        return plan

    async def _hand_over(self, plan: Promotion, master: str, wish: RoleChange) -> None:
        """Make the present master a slave, then the slave the master; if the slave refuses, try to undo that, and raise."""
        new_id = await self._free_id(plan.broker_name)
        handed = await self._brokers.change_role(
            master,
            RoleChange(
                master_address=plan.address, master_broker_id=plan.broker_id, broker_id=new_id
            ),
        )
        wish = replace(wish, log_end=handed.log_end)
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
        self, broker_name: str, *, address: str | None = None, successor: int | None = None
    ) -> int:
        """Make a running CometMQ master a slave, and return its new id; a group without a master takes no messages.

        Args:
            broker_name: The broker group.
            address: Address of a master that has lost its name to another one; None: the registered master.
            successor: Id of a slave that must have everything first; None: no slave needs to.

        Raises:
            BrokerNotFound: No such master is registered.
            BrokerRefused: It did not become a slave; usually its role is as before. After a NetError it may be a slave.
        """
        new_id = await self._free_id(broker_name)
        if address is None:
            address = await self._live.nameserver_api.member(broker_name)
        changed = await self._brokers.change_role(
            address, RoleChange(master_broker_id=successor, broker_id=new_id)
        )
        return changed.broker_id

    async def _free_id(self, broker_name: str) -> int:
        claims = await self._live.nameserver_api.claims()
        taken = {broker_id for name, broker_id, _ in claims if name == broker_name}
        if not taken:
            await self._live.nameserver_api.member(broker_name)  # Says who is there.
        return next(number for number in range(1, len(taken) + 2) if number not in taken)

    async def transfer(self, broker_name: str, to: str) -> str:
        """Let another member of a group with elections lead; return the id (dLegerSelfId) of the one that leads then.

        The leader accepts no messages for a moment, until that member has its whole log. No acknowledged message is lost.

        Raises:
            BrokerNotFound: No such broker is registered.
            BrokerRefused: The member is unknown, does not answer, or lacks more than 1 MiB of the log, or the group elects
                no leader; nothing was changed. Or no member leads 10 s after this one handed over.
        """
        return (
            await self._change_group(broker_name, RequestCode.TRANSFER_LEADERSHIP, to)
        ).leader

    async def add_member(self, broker_name: str, member: str) -> str | None:
        """Add a member to a group with elections; return None once it votes, or after 10 s why it does not vote yet.

        It first copies the log, and then votes without another request.

        Args:
            broker_name: The group.
            member: `ID-HOST:PORT`, as in dLegerPeers.

        Raises:
            BrokerNotFound: No such broker is registered.
            BrokerRefused: The text is malformed, the member is there already, another change is not complete, or the group
                elects no leader; nothing was changed. Or a majority did not get the change within 5 s: it may be undone.
        """
        members = await self._change_group(broker_name, RequestCode.ADD_GROUP_MEMBER, member)
        return members.waits_for

    async def remove_member(self, broker_name: str, member: str) -> tuple[str, ...]:
        """Remove a member from a group with elections, by its id; return the ids of the members that vote.

        Raises:
            BrokerNotFound: No such broker is registered.
            BrokerRefused: There is no such member, the others would have no majority that answers, another change is not
                complete, or the group elects no leader; nothing was changed. Or as for `add_member`.
        """
        members = await self._change_group(broker_name, RequestCode.REMOVE_GROUP_MEMBER, member)
        return tuple(members.voters.split(","))

    async def _change_group(
        self, broker_name: str, code: RequestCode, member: str
    ) -> GroupMembers:
        # Without a leader there is no master, and the other members say so.
        known = await self._live.nameserver_api.readable_brokers()
        address = known.get(broker_name) or await self._member(broker_name)
        return await self._brokers.ask_leader(address, code, member)

    async def kv_values(self, namespace: str) -> dict[str, str]:
        """Return the values of a namespace of the nameservers' key-value configuration by key; empty if it is unknown."""
        return await self._live.nameserver_api.kv_values(namespace)

    async def set_kv_value(self, namespace: str, key: str, value: str) -> None:
        """Set a value of the key-value configuration at every nameserver.

        Raises:
            SettingsError: The namespace or the key is empty; or the namespace is ORDER_TOPIC_CONFIG, and the value is not
                "broker-a:4;broker-b:4".
            NetError: A nameserver did not answer; others may have the value.
        """
        for name, text in (("namespace", namespace), ("key", key)):
            if not text.strip():
                raise SettingsError(
                    f"the {name} of a key-value configuration must not be empty"
                )
        # Clients of RocketMQ fail on an order configuration that they cannot parse.
        if namespace == ORDER_NAMESPACE and not _ORDER.fullmatch(value):
            raise SettingsError(
                f"{in_quotes(value)} is not an order configuration of topic {in_quotes(key)}; write the number of "
                "queues of each broker: 'broker-a:4;broker-b:4'"
            )
        await self._live.nameserver_api.set_kv_value(namespace, key, value)

    async def delete_kv_value(self, namespace: str, key: str) -> None:
        """Delete a value of the key-value configuration, if there is one, at every nameserver."""
        await self._live.nameserver_api.delete_kv_value(namespace, key)

    async def _runtime(self, address: str) -> tuple[Mapping[str, str], int]:
        numbers = await self._brokers.runtime(address)
        return numbers, self._live.clock.now_ms()

    async def _is_writable(self, broker_name: str) -> bool | None:
        """Return whether the route of the topic named like a broker permits sends to it; None if unknown."""
        try:
            route = await self._live.nameserver_api.route(broker_name)
        except TopicNotFound:
            return None
        except BrokerRefused as refused:
            # A user who may query the cluster need not have a right to this topic.
            if refused.code != ResponseCode.NO_PERMISSION:
                raise
            return None
        perms = [each.perm for each in route.queues if each.broker_name == broker_name]
        return is_writable(perms[0]) if perms else None

    # --- Methods named like types stand last: in annotations behind them, these names would mean the methods.

    async def set(self, broker_name: str, values: Mapping[str, str]) -> None:
        """Change settings of a running master; a CometMQ broker changes all of them or none.

        Raises:
            BrokerNotFound: No such master is registered.
            BrokerRefused: The broker refuses, for example because a setting cannot be changed at run time; or it could not
                save the change, which is then effective until the next start.
        """
        address = await self._live.nameserver_api.member(broker_name)
        await self._brokers.change_settings(address, values)

    async def list(
        self, registered: Mapping[str, BrokerData] | None = None
    ) -> list[BrokerState]:
        """Return the state and runtime values of each member of each broker group, the master of a group first.

        A master that left has an entry, with the reason as `error`, if the nameserver remembers it or lists its slaves.

        Args:
            registered: Only these broker groups, by name, without masters that left; None: all that are registered now.
        """
        away: list[BrokerState] = []
        if registered is None:
            registered = (await self._live.nameserver_api.cluster()).brokers
            away = _away(registered, await self.missing())
        members = [
            (broker.cluster, name, broker_id, address)
            for name, broker in sorted(registered.items())
            for broker_id, address in sorted(broker.addresses.items())
        ]
        names = list(registered)
        said = await side_by_side(self._runtime, [each[3] for each in members])
        writable = dict(
            zip(names, all_of(await side_by_side(self._is_writable, names)), strict=True)
        )
        states = [
            BrokerState(
                *member, writable[member[1]], {}, str(answer), is_refused=is_refusal(answer)
            )
            if isinstance(answer, CometError)
            else BrokerState(*member, writable[member[1]], answer[0], answered_ms=answer[1])
            for member, answer in zip(members, said, strict=True)
        ]
        return sorted([*states, *away], key=lambda each: (each.broker_name, each.broker_id))


def _away(
    registered: Mapping[str, BrokerData], missing: Iterable[AbsentBroker]
) -> list[BrokerState]:
    """Return the state of each known master that is not registered, with the reason as its error.

    Args:
        registered: Registered broker groups by name; those that only have slaves lack their master.
        missing: Brokers that have left their nameserver; those whose group is registered are ignored.
    """
    found = [
        BrokerState(
            each.cluster, each.name, MASTER_ID, "", None, {}, f"it {each.why}", each.left_ms
        )
        for each in missing
        if each.name not in registered
    ]
    for name, broker in registered.items():
        if MASTER_ID not in broker.addresses:
            why = "it is not registered, only its slaves are: it accepts no messages"
            found.append(BrokerState(broker.cluster, name, MASTER_ID, "", None, {}, why))
    return found
