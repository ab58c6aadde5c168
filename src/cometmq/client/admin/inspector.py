"""The asyncio inspector: reports the state of brokers and groups, and diagnoses problems of a cluster.

    async with AsyncInspector("127.0.0.1:9876") as inspector:
        print((await inspector.explain(message_id, "billing")).answer)

`cometmq.admin.Inspector` is the same for threads.
"""

from collections.abc import Sequence

from cometmq.client.admin.absent import AbsentBroker
from cometmq.client.admin.dead_letters import DeadLetterCount, DeadLetters
from cometmq.client.admin.doctor import Doctor
from cometmq.client.admin.explain import Explainer, Explanation
from cometmq.client.admin.facts import LAG_DEFAULT, WAIT_MS_DEFAULT, Symptom
from cometmq.client.admin.states import (
    BrokerState,
    States,
)
from cometmq.client.api.broker import BrokerApi, SettingsReport
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.lifecycle import AsyncClient
from cometmq.client.settings import ClientSettings
from cometmq.codec.bodies.stats import StatsWindows
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import decode_message_id
from cometmq.model.errors import BrokerNotFound, SettingsError
from cometmq.model.message import StoredMessage
from cometmq.model.namespace import namespace_of
from cometmq.model.route import MASTER_ID
from cometmq.model.text import in_quotes


class AsyncInspector(AsyncClient):
    """Inspects a cluster: the state of brokers and groups, and the reasons of problems.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: Times; without a namespace.
        instance: Shares the connections of another client, whose owner closes them.

    Raises:
        SettingsError: The settings have a namespace; or an address, or the environment's credentials or TLS, are invalid.
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
                f"an inspector reads the whole cluster: leave namespace={in_quotes(settings.namespace)} out of its "
                f"settings, and pass full names, such as {namespace_of(settings.namespace).wrap('orders')}"
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
        """Return the state and runtime values of each member of each broker group, the master of a group first.

        A master that left has an entry, with the reason as `error`, if the nameserver remembers it or lists its slaves.
        """
        return await self._states.brokers()

    async def runtime(self, broker_name: str, broker_id: int = MASTER_ID) -> dict[str, str]:
        """Return the runtime values of a broker by RocketMQ's names; raise BrokerNotFound if it is not registered."""
        address = await self._member(broker_name, broker_id)
        return await self._api.runtime(address)

    async def settings(self, broker_name: str, broker_id: int = MASTER_ID) -> SettingsReport:
        """Return the settings that are in effect at a broker; raise BrokerNotFound if it is not registered."""
        address = await self._member(broker_name, broker_id)
        return await self._api.settings(address)

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
        return await self._api.stats(address, name, key)

    # --- topics and groups

    async def missing(self) -> list[AbsentBroker]:
        """Return the broker groups that left and that the nameserver remembers; empty if it returns no valid list, as RocketMQ's."""
        return await self._states.missing()

    # --- diagnosis

    async def examine(
        self, *, lag_max: int = LAG_DEFAULT, wait_ms: int = WAIT_MS_DEFAULT
    ) -> list[Symptom]:
        """Check the cluster for problems (`Symptom.check`) and return them, the worst first, with advice.

        It takes 2 s longer if a queue has no reader or a member seems stuck, and 2 s if a slave seems late.

        Args:
            lag_max: Number of messages by which a group with members may lag.
            wait_ms: Time that a message may wait for a member or for its acknowledgement, and a half message for the end
                of its transaction, ms.
        """
        return await Doctor(self._live).look(lag_max, wait_ms)

    async def explain(
        self, message_id: str, group: str, *, topic: str | None = None
    ) -> Explanation:
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
        return await Explainer(self._live).explain(message_id, group, topic)

    # --- dead letters

    async def dead_letters(self) -> list[DeadLetterCount]:
        """Return the number of dead letters of each group that has any, sorted by name; requires an administrator's rights.

        Brokers that do not answer or have left are named by the counts that lack them.
        """
        return await DeadLetters(self._live).counts()

    async def replayed(self, group: str, letters: Sequence[StoredMessage]) -> list[bool]:
        """Return for each dead letter of a group whether the replay ledger records that any program has sent it.

        `replay`, the command `dlq replay`, the dashboard and the Spark job share this ledger.
        """
        from cometmq.client.admin.replay import replayed

        return await replayed(self._live, group, letters)

    async def replay(
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
        from cometmq.client.admin.replay import Replay, ReplayPlan

        run = Replay(self._live, ReplayPlan(group), lambda _: None)
        return await run.these(letters, again=again)

    async def resume_transaction(self, offset_message_id: str) -> None:
        """Make a broker check a half message again that it discarded, by its offset message id in TRANS_CHECK_MAX_TIME_TOPIC."""
        host, _offset = decode_message_id(offset_message_id)
        await self._api.resume_check(decode_host(host), offset_message_id)
