"""Consumer groups, as `AsyncAdmin.groups`: settings, members and lag; also the connected members of producer groups."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.admin.states import ClusterProducers, GroupState, States, group_not_found
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.codec.bodies.conflicts import Conflict
from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
from cometmq.codec.bodies.running import RunningState
from cometmq.model.errors import CometError, GroupNotFound
from cometmq.model.group import GroupConfig
from cometmq.model.names import check_group
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes


class AsyncGroupAdmin(AsyncNoun):
    """The consumer groups of a cluster; a group has its own settings at each broker."""

    _noun = "groups"

    async def show(self, group: str) -> GroupState:
        """Return one consumer group, with members and lag by queue; raise GroupNotFound if no broker that answers knows it."""
        state = await States(self._live).group(self._full(group))
        if not state.is_known:
            raise group_not_found(group, state.absent)
        return self._short_group(state)

    async def some(self, groups: Sequence[str]) -> list[GroupState | CometError]:
        """Return the state of some consumer groups, in their order, or the error that `show` would raise for one.

        It takes fewer requests than `show` for each, and fewer bytes than `list`. Raises the error of the nameserver,
        or of a broker that refuses to list its groups.
        """
        found = await States(self._live).some_groups([*map(self._full, groups)])
        return [
            state
            if isinstance(state, CometError)
            else self._short_group(state)
            if state.is_known
            else group_not_found(name, state.absent)
            for name, state in zip(groups, found, strict=True)
        ]

    async def configs(self, *, cluster: str | None = None) -> dict[str, GroupConfig]:
        """Return all consumer groups of the namespace by name; if masters differ, with the settings of the last one.

        Raises BrokerNotFound if no master is registered.
        """
        found: dict[str, GroupConfig] = {}
        for groups in (await self._each_master(self._brokers.groups, cluster)).values():
            found.update(groups)
        return {
            name: replace(found[self._namespace.wrap(name)], name=name)
            for name in self._own(found)
        }

    async def connections(self, group: str) -> dict[str, ConsumerConnections]:
        """Return the members of a consumer group that are connected to each master, by broker name.

        Masters without a member are left out. Raises BrokerNotFound if no master is registered.
        """
        group = self._full(group)
        seen = await self._each_master(
            lambda address: self._brokers.consumer_connections(address, group), None
        )
        return {
            name: replace(
                members, subscriptions=self._short_subscriptions(members.subscriptions)
            )
            for name, members in seen.items()
            if members is not None
        }

    async def producers(self) -> ClusterProducers:
        """Return the connected members of all producer groups; requires an administrator's rights.

        Raises BrokerNotFound if no master is registered, NetError if none answers, and BrokerRefused if one refuses.
        """
        return await States(self._live).producers()

    async def producer_connections(self, group: str) -> dict[str, tuple[ClientConnection, ...]]:
        """Return the members of a producer group that are connected to each master, by broker name.

        Masters without a member are left out. Raises BrokerNotFound if no master is registered.
        """
        group = self._full(group)
        seen = await self._each_master(
            lambda address: self._brokers.producer_connections(address, group), None
        )
        return {name: members for name, members in seen.items() if members}

    async def running(
        self, group: str, client_id: str, *, stacks: bool = False
    ) -> RunningState:
        """Return the state that a member of a group reports; with `stacks`, also the stacks of its threads.

        The masters are asked in turn until one returns it. If none does, raises BrokerRefused if a master refuses, for
        example because it does not know the member or the member is silent, and NetError if no master answers.
        """
        return await States(self._live).running(self._full(group), client_id, stacks=stacks)

    async def conflicts(self, group: str | None = None) -> list[Conflict]:
        """Return conflicts between a group's members: different subscriptions or message models, or a shared client id.

        Java brokers refuse this request (BrokerRefused).

        Args:
            group: The consumer group; None: all groups.
        """
        group = group and self._full(group)
        found: dict[Conflict, None] = {}
        addresses = (await self._live.nameserver_api.readable_brokers()).values()
        for conflicts in all_of(
            await side_by_side(
                lambda address: self._brokers.conflicts(address, group), addresses
            )
        ):
            found.update(dict.fromkeys(conflicts))
        return list(found)

    async def locks(self, group: str | None = None) -> dict[tuple[str, MessageQueue], str]:
        """Return the client ids that hold queue locks, by group and queue; raise BrokerRefused for a Java broker."""
        group = group and self._full(group)
        found: dict[tuple[str, MessageQueue], str] = {}
        addresses = (await self._live.nameserver_api.readable_brokers()).values()
        for locks in all_of(
            await side_by_side(
                lambda address: self._brokers.queue_locks(address, group), addresses
            )
        ):
            found.update(locks)
        return found

    async def create(self, group: GroupConfig, *, cluster: str | None = None) -> None:
        """Create a consumer group, or change its settings, at every master of the cluster, or of all clusters.

        Raises RequestError if the name is invalid, and BrokerNotFound if there is no such master.
        """
        check_group(group.name)
        group = replace(group, name=self._full(group.name))
        await self._each_master(
            lambda address: self._brokers.create_group(address, group), cluster
        )

    async def delete(
        self, group: str, *, delete_offsets: bool = True, cluster: str | None = None
    ) -> None:
        """Delete a consumer group and, unless `delete_offsets` is False, its offsets (in CometMQ also its own retry topics).

        Raises BrokerNotFound if no master is registered.
        """
        group = self._full(group)
        await self._each_master(
            lambda address: self._brokers.delete_group(address, group, offsets=delete_offsets),
            cluster,
        )

    # --- Methods named like types stand last: in annotations behind them, these names would mean the methods.

    async def set(self, group: str, changes: Mapping[str, Any]) -> dict[str, GroupConfig]:
        """Change fields of `GroupConfig`, except the name, at each master that has a group; return the results by broker name.

        Raises BrokerNotFound without a master, GroupNotFound if none has the group, SettingsError for another field.
        """
        name, group = group, self._full(group)
        changed = await self._each_master(
            lambda address: self._brokers.change_group(address, group, changes)
        )
        if not any(changed.values()):
            raise GroupNotFound(
                f"no broker has the settings of group {in_quotes(name)}; create it with cometmq group create or "
                "Admin.groups.create"
            )
        return self._short_configs(changed)

    async def list(self) -> list[GroupState]:
        """Return the consumer groups of the namespace that the brokers know, with lag and members, sorted by name."""
        states = await States(self._live).groups()
        own = self._own(state.name for state in states)
        return [state for state in map(self._short_group, states) if state.name in own]
