"""The blocking `GroupAdmin`: made by tools/sync_facade.py from cometmq.client.admin.groups; do not edit."""

from __future__ import annotations

from collections.abc import (
    Mapping,
    Sequence,
)
from typing import Any

from cometmq.client.admin.groups import AsyncGroupAdmin
from cometmq.client.admin.states import (
    ClusterProducers,
    GroupState,
)
from cometmq.client.sync.client import BlockingNoun
from cometmq.codec.bodies.conflicts import Conflict
from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
from cometmq.codec.bodies.running import RunningState
from cometmq.model.errors import (
    CometError,
)
from cometmq.model.group import GroupConfig
from cometmq.model.queue import MessageQueue


class GroupAdmin(BlockingNoun[AsyncGroupAdmin]):
    """The methods that list, show, create, change and delete consumer groups of a cluster; a group has its own settings at each broker."""

    def show(self, group: str) -> GroupState:
        """Return one consumer group, with members and lag by queue; raise GroupNotFound if no broker that answers knows it."""
        return self._portal.call(self._client.show, group)

    def some(self, groups: Sequence[str]) -> list[GroupState | CometError]:
        """Return the state of some consumer groups, in their order, or the error that `show` would raise for one.

        It takes fewer requests than `show` for each, and fewer bytes than `list`. Raises the error of the nameserver,
        or of a broker that refuses to list its groups.
        """
        return self._portal.call(self._client.some, groups)

    def configs(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[str, GroupConfig]:
        """Return all consumer groups of the namespace by name; if masters differ, with the settings of the last one.

        Args:
            cluster: Only at the masters of this cluster; None: at all masters.
            broker: Only at this master.

        Raises:
            BrokerNotFound: No such master is registered.
        """
        return self._portal.call(self._client.configs, cluster=cluster, broker=broker)

    def connections(self, group: str) -> dict[str, ConsumerConnections]:
        """Return the members of a consumer group that are connected to each master, by broker name.

        Masters without a member are left out. Raises BrokerNotFound if no master is registered.
        """
        return self._portal.call(self._client.connections, group)

    def producers(self) -> ClusterProducers:
        """Return the connected members of all producer groups; requires an administrator's rights.

        Raises BrokerNotFound if no master is registered, NetError if none answers, and BrokerRefused if one refuses.
        """
        return self._portal.call(self._client.producers)

    def producer_connections(self, group: str) -> dict[str, tuple[ClientConnection, ...]]:
        """Return the members of a producer group that are connected to each master, by broker name.

        Masters without a member are left out. Raises BrokerNotFound if no master is registered.
        """
        return self._portal.call(self._client.producer_connections, group)

    def running(self, group: str, client_id: str, *, stacks: bool = False) -> RunningState:
        """Return the state that a member of a group reports; with `stacks`, also the stacks of its threads.

        The masters are asked in turn until one returns it. If none does, raises BrokerRefused if a master refuses, for
        example because it does not know the member or the member is silent, and NetError if no master answers.
        """
        return self._portal.call(self._client.running, group, client_id, stacks=stacks)

    def conflicts(self, group: str | None = None) -> list[Conflict]:
        """Return conflicts between a group's members: different subscriptions or message models, or a shared client id.

        Java brokers refuse this request (BrokerRefused).

        Args:
            group: The consumer group; None: all groups.
        """
        return self._portal.call(self._client.conflicts, group)

    def locks(self, group: str | None = None) -> dict[tuple[str, MessageQueue], str]:
        """Return the client ids that hold queue locks, by group and queue; raise BrokerRefused for a Java broker."""
        return self._portal.call(self._client.locks, group)

    def create(
        self, group: GroupConfig, *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Create a consumer group, or change its settings, at every master of the cluster, or of all clusters.

        Args:
            group: The name and settings of the group.
            cluster: Only at the masters of this cluster; None: at all masters.
            broker: Only at this master.

        Raises:
            RequestError: The name is invalid.
            BrokerNotFound: No such master is registered.
        """
        self._portal.call(self._client.create, group, cluster=cluster, broker=broker)

    def delete(
        self, group: str, *, delete_offsets: bool = True, cluster: str | None = None
    ) -> None:
        """Delete a consumer group at every master, or at those of `cluster`; unless `delete_offsets` is False, also its offsets.

        With the offsets, CometMQ's brokers delete the group's own retry topics.
        Raises BrokerNotFound if no master is registered.
        """
        self._portal.call(
            self._client.delete, group, delete_offsets=delete_offsets, cluster=cluster
        )

    def set(
        self,
        group: str,
        changes: Mapping[str, Any],
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> dict[str, GroupConfig]:
        """Change fields of `GroupConfig`, except the name, at each master that has a group; return the results by broker name.

        Args:
            group: Name of the group.
            changes: New values by field.
            cluster: Only at the masters of this cluster; None: at all masters.
            broker: Only at this master.

        Raises:
            BrokerNotFound: No such master is registered.
            GroupNotFound: None of them has the group.
            SettingsError: `changes` has the name or an unknown field.
        """
        return self._portal.call(
            self._client.set, group, changes, cluster=cluster, broker=broker
        )

    def list(self, brokers: Mapping[str, str] | None = None) -> list[GroupState]:
        """Return the consumer groups of the namespace that the brokers know, with lag and members, sorted by name.

        A group whose members a broker does not show, for example because the user may not read it, has the reason in `unread`.

        Args:
            brokers: Addresses of the brokers to query, by broker name; None: of each registered group the master or a slave.
        """
        return self._portal.call(self._client.list, brokers)
