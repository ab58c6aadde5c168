"""Brokers and nameservers, as `AsyncAdmin.brokers`: members, settings, replication, roles, and key-value configuration."""

from collections.abc import Mapping

from cometmq.client.admin.absent import AbsentBroker, missing_brokers
from cometmq.client.admin.copies import (
    ReplicaCopy,
    ask_replicas,
    judge_copies,
    settled_replicas,
)
from cometmq.client.admin.kv import check_kv_value
from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.admin.roles import Promotion, Roles
from cometmq.client.admin.states import BrokerState, States
from cometmq.client.api.broker import SettingsReport
from cometmq.client.results import Replica
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.stats import StatsWindows
from cometmq.model.errors import BrokerNotFound
from cometmq.model.route import MASTER_ID


class AsyncBrokerAdmin(AsyncNoun):
    """The brokers of a cluster, and the key-value configuration of its nameservers."""

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
        return await ask_replicas(self._live)

    async def copies(self) -> list[ReplicaCopy]:
        """Return each member of each broker group and each rival for its id, with the state of its copy of the log.

        If a slave seems late, the members are queried again after a while.
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
        return await Roles(self._live).plan(broker_name, broker_id, role=role)

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
        roles = Roles(self._live)
        plan = await roles.plan(broker_name, broker_id, role=role)
        await roles.promote(plan, is_forced=force)
        return plan

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
        changed = await Roles(self._live).demote(
            broker_name, address=address, successor=successor
        )
        return changed.broker_id

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
        check_kv_value(namespace, key, value)
        await self._live.nameserver_api.set_kv_value(namespace, key, value)

    async def delete_kv_value(self, namespace: str, key: str) -> None:
        """Delete a value of the key-value configuration, if there is one, at every nameserver."""
        await self._live.nameserver_api.delete_kv_value(namespace, key)

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

    async def list(self) -> list[BrokerState]:
        """Return the state and runtime values of each member of each broker group, the master of a group first.

        A master that left has an entry, with the reason as `error`, if the nameserver remembers it or lists its slaves.
        """
        return await States(self._live).brokers()
