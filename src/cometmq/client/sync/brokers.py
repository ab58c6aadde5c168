"""The blocking `BrokerAdmin`: made by tools/sync_facade.py from cometmq.client.admin.brokers; do not edit."""

from __future__ import annotations

from collections.abc import Mapping

from cometmq.client.admin.absent import AbsentBroker
from cometmq.client.admin.brokers import AsyncBrokerAdmin
from cometmq.client.admin.copies import ReplicaCopy
from cometmq.client.admin.roles import Promotion
from cometmq.client.admin.states import BrokerState
from cometmq.client.api.broker import SettingsReport
from cometmq.client.results import Replica
from cometmq.client.sync.client import BlockingNoun
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.stats import StatsWindows
from cometmq.model.route import MASTER_ID, BrokerData


class BrokerAdmin(BlockingNoun[AsyncBrokerAdmin]):
    """The methods that show and change brokers of a cluster, and the key-value configuration of its nameservers."""

    def cluster(self) -> ClusterInfo:
        """Return the clusters with their brokers that the nameserver knows."""
        return self._portal.call(self._client.cluster)

    def missing(self) -> list[AbsentBroker]:
        """Return the broker groups that left and that the nameserver remembers; empty if it returns no valid list, as RocketMQ's."""
        return self._portal.call(self._client.missing)

    def runtime(self, broker_name: str, broker_id: int = MASTER_ID) -> dict[str, str]:
        """Return the runtime values of a broker by RocketMQ's names; raise BrokerNotFound if it is not registered."""
        return self._portal.call(self._client.runtime, broker_name, broker_id)

    def settings(self, broker_name: str, broker_id: int = MASTER_ID) -> SettingsReport:
        """Return the settings that are in effect at a broker; raise BrokerNotFound if it is not registered."""
        return self._portal.call(self._client.settings, broker_name, broker_id)

    def stats(self, broker_name: str, name: str, key: str) -> StatsWindows:
        """Return sums and rates of a statistic such as `TOPIC_PUT_NUMS` at a master, for its last minute, hour and day.

        Raises BrokerNotFound if the master is not registered, and BrokerRefused if it has no such statistic or key.
        """
        return self._portal.call(self._client.stats, broker_name, name, key)

    def drain(self, broker_name: str) -> int:
        """Remove write permission from a broker's routes, so that producers avoid it; return the number of its topics.

        Its messages can still be consumed. This lasts until `undrain`, until a nameserver restarts, or until the broker
        returns after it was gone or registers changed topics. Raises BrokerNotFound if no such master is registered.
        """
        return self._portal.call(self._client.drain, broker_name)

    def undrain(self, broker_name: str) -> int:
        """Make all of a broker's routes readable and writable; return the number of its topics, or raise BrokerNotFound."""
        return self._portal.call(self._client.undrain, broker_name)

    def replicas(self) -> list[Replica]:
        """Return each member of each broker group, sorted by name and id, with its replication status or an error.

        A second broker that claims the id of a member has an `owner`; it is left out if it does not answer.
        """
        return self._portal.call(self._client.replicas)

    def copies(self) -> list[ReplicaCopy]:
        """Return the members of all broker groups, and rivals for their ids, with the state of their copies of the log.

        A rival that does not answer is left out. If a slave seems late, all are queried again after 2 s.
        """
        return self._portal.call(self._client.copies)

    def promotion(
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
        return self._portal.call(self._client.promotion, broker_name, broker_id, role=role)

    def promote(
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
        return self._portal.call(
            self._client.promote, broker_name, broker_id, role=role, force=force
        )

    def demote(
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
        return self._portal.call(
            self._client.demote, broker_name, address=address, successor=successor
        )

    def transfer(self, broker_name: str, to: str) -> str:
        """Let another member of a group with elections lead; return the id (dLegerSelfId) of the one that leads then.

        The leader accepts no messages for a moment, until that member has its whole log. No acknowledged message is lost.

        Raises:
            BrokerNotFound: No such broker is registered.
            BrokerRefused: The member is unknown, does not answer, or lacks more than 1 MiB of the log, or the group elects
                no leader; nothing was changed. Or no member leads 10 s after this one handed over.
        """
        return self._portal.call(self._client.transfer, broker_name, to)

    def add_member(self, broker_name: str, member: str) -> str | None:
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
        return self._portal.call(self._client.add_member, broker_name, member)

    def remove_member(self, broker_name: str, member: str) -> tuple[str, ...]:
        """Remove a member from a group with elections, by its id; return the ids of the members that vote.

        Raises:
            BrokerNotFound: No such broker is registered.
            BrokerRefused: There is no such member, the others would have no majority that answers, another change is not
                complete, or the group elects no leader; nothing was changed. Or as for `add_member`.
        """
        return self._portal.call(self._client.remove_member, broker_name, member)

    def kv_values(self, namespace: str) -> dict[str, str]:
        """Return the values of a namespace of the nameservers' key-value configuration by key; empty if it is unknown."""
        return self._portal.call(self._client.kv_values, namespace)

    def set_kv_value(self, namespace: str, key: str, value: str) -> None:
        """Set a value of the key-value configuration at every nameserver.

        Raises:
            SettingsError: The namespace or the key is empty; or the namespace is ORDER_TOPIC_CONFIG, and the value is not
                "broker-a:4;broker-b:4".
            NetError: A nameserver did not answer; others may have the value.
        """
        self._portal.call(self._client.set_kv_value, namespace, key, value)

    def delete_kv_value(self, namespace: str, key: str) -> None:
        """Delete a value of the key-value configuration, if there is one, at every nameserver."""
        self._portal.call(self._client.delete_kv_value, namespace, key)

    def set(self, broker_name: str, values: Mapping[str, str]) -> None:
        """Change settings of a running master; a CometMQ broker changes all of them or none.

        Raises:
            BrokerNotFound: No such master is registered.
            BrokerRefused: The broker refuses, for example because a setting cannot be changed at run time; or it could not
                save the change, which is then effective until the next start.
        """
        self._portal.call(self._client.set, broker_name, values)

    def list(self, registered: Mapping[str, BrokerData] | None = None) -> list[BrokerState]:
        """Return the state and runtime values of each member of each broker group, the master of a group first.

        A master that left has an entry, with the reason as `error`, if the nameserver remembers it or lists its slaves.

        Args:
            registered: Only these broker groups, by name, without masters that left; None: all that are registered now.
        """
        return self._portal.call(self._client.list, registered)
