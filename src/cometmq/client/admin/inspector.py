"""Looks into a cluster: its brokers and groups, and why something does not move.

    async with AsyncInspector("127.0.0.1:9876") as inspector:
        print((await inspector.explain(message_id, "billing")).answer)

`cometmq.client.Inspector` is the same for threads.
"""

from collections.abc import Sequence

from cometmq.client.admin.absent import AbsentBroker
from cometmq.client.admin.doctor import Doctor
from cometmq.client.admin.explain import Explainer, Explanation
from cometmq.client.admin.states import (
    BrokerState,
    GroupState,
    States,
    TopicState,
    group_not_found,
)
from cometmq.client.admin.symptoms import LAG_DEFAULT, Symptom
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.broker import BrokerApi, SettingsReport
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.lifecycle import AsyncClient
from cometmq.client.settings import ClientSettings
from cometmq.codec.bodies.conflicts import Conflict
from cometmq.codec.bodies.running import RunningState
from cometmq.codec.bodies.stats import StatsWindows
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import decode_message_id
from cometmq.model.errors import SettingsError
from cometmq.model.message import StoredMessage
from cometmq.model.namespace import namespace_of
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID


class AsyncInspector(AsyncClient):
    """Inspects a cluster: its brokers and groups, and why something does not move.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: times.
        instance: share another client's connections; its owner closes it.

    Raises:
        SettingsError: a nameserver address cannot be read, or the settings have a namespace.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        settings: ClientSettings | None = None,
        instance: ClientInstance | None = None,
    ) -> None:
        if settings is not None and settings.namespace:
            raise SettingsError(
                f"an inspector looks at the whole cluster: leave namespace={settings.namespace!r} out of its settings, "
                f"and give it full names, such as {namespace_of(settings.namespace).wrap('orders')}"
            )
        super().__init__(nameservers, settings, instance)

    @property
    def _api(self) -> BrokerApi:
        return BrokerApi(self._live)

    @property
    def _states(self) -> States:
        return States(self._live)

    # --- brokers

    async def brokers(self) -> list[BrokerState]:
        """Each member of each broker group, masters first, with its numbers; all are asked side by side."""
        return await self._states.brokers()

    async def runtime(self, broker_name: str, broker_id: int = MASTER_ID) -> dict[str, str]:
        """The numbers of a broker, by RocketMQ's names.

        Raises:
            BrokerNotFound: it is not registered.
        """
        address = await self._live.nameserver_api.member(broker_name, broker_id)
        return await self._api.runtime(address)

    async def settings(self, broker_name: str, broker_id: int = MASTER_ID) -> SettingsReport:
        """The settings that are in force at a broker.

        Raises:
            BrokerNotFound: it is not registered.
        """
        address = await self._live.nameserver_api.member(broker_name, broker_id)
        return await self._api.settings(address)

    async def stats(self, broker_name: str, name: str, key: str) -> StatsWindows:
        """The sums of one of RocketMQ's statistics (`TOPIC_PUT_NUMS`) at a master, for its last minute, hour and day.

        Raises:
            BrokerNotFound: it is not registered.
            BrokerRefused: it keeps no such number.
        """
        address = await self._live.nameserver_api.member(broker_name)
        return await self._api.stats(address, name, key)

    # --- topics and groups

    async def missing(self) -> list[AbsentBroker]:
        """The brokers that left their nameserver and have not come back; RocketMQ's nameserver does not tell them."""
        return await self._states.missing()

    async def topic_bounds(
        self, topic: str, missing: Sequence[AbsentBroker] | None = None
    ) -> TopicState:
        """The offsets of each queue of a topic that can be read, without times and rate: anybody may ask for these.

        Args:
            topic: its name.
            missing: The answer of `missing`, to look at many topics; None: it is asked for.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        return await self._states.topic_bounds(topic, missing)

    async def topic_stats(
        self, topic: str, missing: Sequence[AbsentBroker] | None = None
    ) -> TopicState:
        """The offsets and last store time of each queue of a topic, and its messages put a second.

        A broker that cannot be asked is named, and its queues are left out.

        Args:
            topic: its name.
            missing: The answer of `missing`, to look at many topics; None: it is asked for.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        return await self._states.topic(topic, missing)

    async def groups_of_topic(self, topic: str) -> list[str]:
        """The consumer groups of a topic, sorted.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        return await self._states.groups_of_topic(topic)

    async def groups(self) -> list[GroupState]:
        """Every consumer group with its lag and number of members, by name; brokers are asked side by side."""
        return await self._states.groups()

    async def group(self, group: str) -> GroupState:
        """One consumer group, with its members and its lag by queue.

        Raises:
            GroupNotFound: no broker knows it.
        """
        state = await self._states.group(group)
        if not state.is_known:
            raise group_not_found(group, state.absent)
        return state

    async def running(
        self, group: str, client_id: str, *, stacks: bool = False
    ) -> RunningState:
        """The state that a member of a group reports, by way of any broker that knows it.

        Args:
            group: the consumer group.
            client_id: of the member.
            stacks: with what its threads do.

        Raises:
            BrokerRefused: no broker knows the member, or it does not answer.
        """
        return await self._states.running(group, client_id, stacks=stacks)

    # --- what does not move

    async def examine(self, *, lag_max: int = LAG_DEFAULT) -> list[Symptom]:
        """Find all that is not well in the cluster, the worst first, with what to do; takes 2 s more where a queue has no reader.

        Args:
            lag_max: messages that a group may lack.
        """
        return await Doctor(self._live).look(lag_max)

    async def explain(
        self, message_id: str, group: str, *, topic: str | None = None
    ) -> Explanation:
        """Find why a group has not consumed a message.

        Args:
            message_id: the id that its producer gave it, or the offset message id.
            group: the consumer group.
            topic: of the message; None: the topics that the group's members want.

        Raises:
            MessageError: nobody is there to say the topics, and none is named.
            TopicNotFound: the nameserver does not know the topic.
        """
        return await Explainer(self._live).explain(message_id, group, topic)

    async def conflicts(self, group: str | None = None) -> list[Conflict]:
        """Members that contradict each other, of one group or of all; Java's brokers refuse to say."""
        found: dict[Conflict, None] = {}
        addresses = (await self._live.nameserver_api.readable_brokers()).values()
        for conflicts in all_of(
            await side_by_side(lambda address: self._api.conflicts(address, group), addresses)
        ):
            found.update(dict.fromkeys(conflicts))
        return list(found)

    async def queue_locks(
        self, group: str | None = None
    ) -> dict[tuple[str, MessageQueue], str]:
        """The client ids that hold queues in order, by group and queue; Java's brokers do not tell them."""
        found: dict[tuple[str, MessageQueue], str] = {}
        addresses = (await self._live.nameserver_api.readable_brokers()).values()
        for locks in all_of(
            await side_by_side(lambda address: self._api.queue_locks(address, group), addresses)
        ):
            found.update(locks)
        return found

    # --- dead letters

    async def replayed(self, group: str, letters: Sequence[StoredMessage]) -> list[bool]:
        """Whether each dead letter of a group was sent again, by this client or anybody else.

        What the ledger in the cluster says, which the command `dlq replay`, the dashboard and Spark's job share.
        """
        from cometmq.client.admin.replay import replayed

        return await replayed(self._live, group, letters)

    async def replay(
        self, group: str, letters: Sequence[StoredMessage], *, again: bool = False
    ) -> list[str]:
        """Send dead letters of a group back to the topics where they came from, each once.

        Args:
            group: the consumer group that gave them up.
            letters: as they were read from its topic of dead letters.
            again: also those that were sent before.

        Returns:
            What became of each: nothing to say where it was sent, else why it was not.

        Raises:
            RequestError: the group's name is too long for a ledger.
        """
        from cometmq.client.admin.replay import Replay, ReplayPlan

        run = Replay(self._live, ReplayPlan(group), lambda _: None)
        return await run.these(letters, again=again)

    async def resume_transaction(self, offset_message_id: str) -> None:
        """Have a half message checked again that was given up after too many checks.

        Args:
            offset_message_id: of the message in TRANS_CHECK_MAX_TIME_TOPIC.
        """
        host, _offset = decode_message_id(offset_message_id)
        await self._api.resume_check(decode_host(host), offset_message_id)
