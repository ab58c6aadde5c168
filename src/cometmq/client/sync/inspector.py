"""The blocking `Inspector`: made by tools/sync_facade.py from cometmq.client.admin.inspector; do not edit."""

from collections.abc import Sequence

from cometmq.client.admin.absent import AbsentBroker
from cometmq.client.admin.explain import Explanation
from cometmq.client.admin.inspector import AsyncInspector
from cometmq.client.admin.states import BrokerState, GroupState, TopicState
from cometmq.client.admin.symptoms import LAG_DEFAULT, Symptom
from cometmq.client.api.broker import SettingsReport
from cometmq.client.settings import ClientSettings
from cometmq.client.sync.client import BlockingClient
from cometmq.codec.bodies.conflicts import Conflict
from cometmq.codec.bodies.running import RunningState
from cometmq.codec.bodies.stats import StatsWindows
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID


class Inspector(BlockingClient[AsyncInspector]):
    """Inspects a cluster: its brokers and groups, and why something does not move.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: times.

    Raises:
        SettingsError: a nameserver address cannot be read, or the settings have a namespace.
    """

    def __init__(
        self, nameservers: str | None = None, *, settings: ClientSettings | None = None
    ) -> None:
        super().__init__(AsyncInspector(nameservers, settings=settings))

    def brokers(self) -> list[BrokerState]:
        """Each member of each broker group, masters first, with its numbers; all are asked side by side."""
        result: list[BrokerState] = self._portal.call(self._client.brokers)
        return result

    def runtime(self, broker_name: str, broker_id: int = MASTER_ID) -> dict[str, str]:
        """The numbers of a broker, by RocketMQ's names.

        Raises:
            BrokerNotFound: it is not registered.
        """
        result: dict[str, str] = self._portal.call(self._client.runtime, broker_name, broker_id)
        return result

    def settings(self, broker_name: str, broker_id: int = MASTER_ID) -> SettingsReport:
        """The settings that are in force at a broker.

        Raises:
            BrokerNotFound: it is not registered.
        """
        result: SettingsReport = self._portal.call(
            self._client.settings, broker_name, broker_id
        )
        return result

    def stats(self, broker_name: str, name: str, key: str) -> StatsWindows:
        """The sums of one of RocketMQ's statistics (`TOPIC_PUT_NUMS`) at a master, for its last minute, hour and day.

        Raises:
            BrokerNotFound: it is not registered.
            BrokerRefused: it keeps no such number.
        """
        result: StatsWindows = self._portal.call(self._client.stats, broker_name, name, key)
        return result

    def missing(self) -> list[AbsentBroker]:
        """The brokers that left their nameserver and have not come back; RocketMQ's nameserver does not tell them."""
        result: list[AbsentBroker] = self._portal.call(self._client.missing)
        return result

    def topic_bounds(
        self, topic: str, missing: Sequence[AbsentBroker] | None = None
    ) -> TopicState:
        """The offsets of each queue of a topic that can be read, without times and rate: anybody may ask for these.

        Args:
            topic: its name.
            missing: The answer of `missing`, to look at many topics; None: it is asked for.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        result: TopicState = self._portal.call(self._client.topic_bounds, topic, missing)
        return result

    def topic_stats(
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
        result: TopicState = self._portal.call(self._client.topic_stats, topic, missing)
        return result

    def groups_of_topic(self, topic: str) -> list[str]:
        """The consumer groups of a topic, sorted.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        result: list[str] = self._portal.call(self._client.groups_of_topic, topic)
        return result

    def groups(self) -> list[GroupState]:
        """Every consumer group with its lag and number of members, by name; brokers are asked side by side."""
        result: list[GroupState] = self._portal.call(self._client.groups)
        return result

    def group(self, group: str) -> GroupState:
        """One consumer group, with its members and its lag by queue.

        Raises:
            GroupNotFound: no broker knows it.
        """
        result: GroupState = self._portal.call(self._client.group, group)
        return result

    def running(self, group: str, client_id: str, *, stacks: bool = False) -> RunningState:
        """The state that a member of a group reports, by way of any broker that knows it.

        Args:
            group: the consumer group.
            client_id: of the member.
            stacks: with what its threads do.

        Raises:
            BrokerRefused: no broker knows the member, or it does not answer.
        """
        result: RunningState = self._portal.call(
            self._client.running, group, client_id, stacks=stacks
        )
        return result

    def examine(self, *, lag_max: int = LAG_DEFAULT) -> list[Symptom]:
        """Find all that is not well in the cluster, the worst first, with what to do; takes 2 s more where a queue has no reader.

        Args:
            lag_max: messages that a group may lack.
        """
        result: list[Symptom] = self._portal.call(self._client.examine, lag_max=lag_max)
        return result

    def explain(self, message_id: str, group: str, *, topic: str | None = None) -> Explanation:
        """Find why a group has not consumed a message.

        Args:
            message_id: the id that its producer gave it, or the offset message id.
            group: the consumer group.
            topic: of the message; None: the topics that the group's members want.

        Raises:
            MessageError: nobody is there to say the topics, and none is named.
            TopicNotFound: the nameserver does not know the topic.
        """
        result: Explanation = self._portal.call(
            self._client.explain, message_id, group, topic=topic
        )
        return result

    def conflicts(self, group: str | None = None) -> list[Conflict]:
        """Members that contradict each other, of one group or of all; Java's brokers refuse to say."""
        result: list[Conflict] = self._portal.call(self._client.conflicts, group)
        return result

    def queue_locks(self, group: str | None = None) -> dict[tuple[str, MessageQueue], str]:
        """The client ids that hold queues in order, by group and queue; Java's brokers do not tell them."""
        result: dict[tuple[str, MessageQueue], str] = self._portal.call(
            self._client.queue_locks, group
        )
        return result

    def replayed(self, group: str, letters: Sequence[StoredMessage]) -> list[bool]:
        """Whether each dead letter of a group was sent again, by this client or anybody else.

        What the ledger in the cluster says, which the command `dlq replay`, the dashboard and Spark's job share.
        """
        result: list[bool] = self._portal.call(self._client.replayed, group, letters)
        return result

    def replay(
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
        result: list[str] = self._portal.call(self._client.replay, group, letters, again=again)
        return result

    def resume_transaction(self, offset_message_id: str) -> None:
        """Have a half message checked again that was given up after too many checks.

        Args:
            offset_message_id: of the message in TRANS_CHECK_MAX_TIME_TOPIC.
        """
        self._portal.call(self._client.resume_transaction, offset_message_id)
