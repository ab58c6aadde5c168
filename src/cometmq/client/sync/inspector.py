"""The blocking `Inspector`: made by tools/sync_facade.py from cometmq.client.admin.inspector; do not edit."""

from collections.abc import Sequence

from cometmq.client.admin.absent import AbsentBroker
from cometmq.client.admin.dead_letters import DeadLetterCount
from cometmq.client.admin.explain import Explanation
from cometmq.client.admin.facts import LAG_DEFAULT, WAIT_MS_DEFAULT, Symptom
from cometmq.client.admin.inspector import AsyncInspector
from cometmq.client.admin.states import BrokerState
from cometmq.client.api.broker import SettingsReport
from cometmq.client.settings import ClientSettings
from cometmq.client.sync.client import BlockingClient
from cometmq.codec.bodies.stats import StatsWindows
from cometmq.model.message import StoredMessage
from cometmq.model.route import MASTER_ID


class Inspector(BlockingClient[AsyncInspector]):
    """Inspects a cluster: the state of brokers and groups, and the reasons of problems.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: Times; without a namespace.

    Raises:
        SettingsError: The settings have a namespace; or an address, or the environment's credentials or TLS, are invalid.
    """

    def __init__(
        self, nameservers: str | None = None, *, settings: ClientSettings | None = None
    ) -> None:
        super().__init__(AsyncInspector(nameservers, settings=settings))

    def brokers(self) -> list[BrokerState]:
        """Return the state and runtime values of each member of each broker group, the master of a group first.

        A master that left has an entry, with the reason as `error`, if the nameserver remembers it or lists its slaves.
        """
        result: list[BrokerState] = self._portal.call(self._client.brokers)
        return result

    def runtime(self, broker_name: str, broker_id: int = MASTER_ID) -> dict[str, str]:
        """Return the runtime values of a broker by RocketMQ's names; raise BrokerNotFound if it is not registered."""
        result: dict[str, str] = self._portal.call(self._client.runtime, broker_name, broker_id)
        return result

    def settings(self, broker_name: str, broker_id: int = MASTER_ID) -> SettingsReport:
        """Return the settings that are in effect at a broker; raise BrokerNotFound if it is not registered."""
        result: SettingsReport = self._portal.call(
            self._client.settings, broker_name, broker_id
        )
        return result

    def stats(self, broker_name: str, name: str, key: str) -> StatsWindows:
        """Return sums and rates of a statistic such as `TOPIC_PUT_NUMS` at a master, for its last minute, hour and day.

        Raises BrokerNotFound if the master is not registered, and BrokerRefused if it has no such statistic or key.
        """
        result: StatsWindows = self._portal.call(self._client.stats, broker_name, name, key)
        return result

    def missing(self) -> list[AbsentBroker]:
        """Return the broker groups that left and that the nameserver remembers; empty if it returns no valid list, as RocketMQ's."""
        result: list[AbsentBroker] = self._portal.call(self._client.missing)
        return result

    def examine(
        self, *, lag_max: int = LAG_DEFAULT, wait_ms: int = WAIT_MS_DEFAULT
    ) -> list[Symptom]:
        """Check the cluster for problems (`Symptom.check`) and return them, the worst first, with advice.

        It takes 2 s longer if a queue has no reader or a member seems stuck, and 2 s if a slave seems late.

        Args:
            lag_max: Number of messages by which a group with members may lag.
            wait_ms: Time that a message may wait for a member or for its acknowledgement, and a half message for the end
                of its transaction, ms.
        """
        result: list[Symptom] = self._portal.call(
            self._client.examine, lag_max=lag_max, wait_ms=wait_ms
        )
        return result

    def explain(self, message_id: str, group: str, *, topic: str | None = None) -> Explanation:
        """Check why a group has not consumed a message, and return the findings.

        Args:
            message_id: Id that the producer assigned, or the offset message id.
            group: The consumer group.
            topic: Topic of the message; None: search the topics of its connected members, then up to 500 others.

        Raises:
            MessageError: No topic is given or known from a member, and the id has not the form of an offset message id.
            TopicNotFound: The topic of the message has no route any more.
            BrokerNotFound: The broker of the message has no master now.
            NetError, BrokerRefused, CodecError: The cluster cannot be queried.
        """
        result: Explanation = self._portal.call(
            self._client.explain, message_id, group, topic=topic
        )
        return result

    def dead_letters(self) -> list[DeadLetterCount]:
        """Return the number of dead letters of each group that has any, sorted by name; requires an administrator's rights.

        Brokers that do not answer or have left are named by the counts that lack them.
        """
        result: list[DeadLetterCount] = self._portal.call(self._client.dead_letters)
        return result

    def replayed(self, group: str, letters: Sequence[StoredMessage]) -> list[bool]:
        """Return for each dead letter of a group whether the replay ledger records that any program has sent it.

        `replay`, the command `dlq replay`, the dashboard and the Spark job share this ledger.
        """
        result: list[bool] = self._portal.call(self._client.replayed, group, letters)
        return result

    def replay(
        self, group: str, letters: Sequence[StoredMessage], *, again: bool = False
    ) -> list[str]:
        """Send dead letters to their original topics unless they were replayed; return for each "" or a reason.

        Despite a reason, a copy may exist: of an earlier replay, or if a send ended without an answer.

        Args:
            group: The consumer group.
            letters: Dead letters, as read from the group's dead-letter topic.
            again: Also send those that were replayed before.

        Raises:
            RequestError: The name of the group is too long for the topic of the ledger.
            CometError: The ledger cannot be read or written.
        """
        result: list[str] = self._portal.call(self._client.replay, group, letters, again=again)
        return result

    def resume_transaction(self, offset_message_id: str) -> None:
        """Make a broker check a half message again that it discarded, by its offset message id in TRANS_CHECK_MAX_TIME_TOPIC."""
        self._portal.call(self._client.resume_transaction, offset_message_id)
