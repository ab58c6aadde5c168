"""The services of a broker in this process, in its current role, as the methods of the proxy call them."""

from collections.abc import Sequence

from cometmq.broker.admin.offsets import CommittedOffsets, QueueOffsets
from cometmq.broker.basic_answers import pulls_of
from cometmq.broker.loop.caller import Caller
from cometmq.broker.members.heartbeats import Heartbeats
from cometmq.broker.parts import Feature
from cometmq.broker.pop.feature import PopFeature
from cometmq.broker.pop.holding import HeldMessages, Holding
from cometmq.broker.pop.popping import PopResult
from cometmq.broker.pull.pulls import PullAnswer
from cometmq.broker.retry.requests import RetryHandler
from cometmq.broker.role import RunningRole
from cometmq.broker.tables.members import Client
from cometmq.broker.timer.feature import Timer
from cometmq.broker.transactions.feature import Transactions
from cometmq.codec.bodies.heartbeat import Heartbeat
from cometmq.codec.headers.offset import (
    QueryConsumerOffset,
    QueueRequest,
    SearchOffset,
    UpdateConsumerOffset,
)
from cometmq.codec.headers.pop import AckRequest, ChangeInvisibleTimeRequest, PopRequest
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.headers.send import RecallRequest, SendBackRequest
from cometmq.codec.headers.transaction import EndTransaction
from cometmq.codec.host import encode_host
from cometmq.codec.receipt import Receipt, real_topic
from cometmq.codec.record import decode_record
from cometmq.model.codes import VERSION
from cometmq.model.group import GroupConfig
from cometmq.model.queue import MessageQueue
from cometmq.model.rights import Action, Asker
from cometmq.model.route import QueueData
from cometmq.model.topic import TopicConfig
from cometmq.net.requests import any_topic, may_of
from cometmq.proxy.backend import HiddenMessages, SendEntry
from cometmq.proxy.local_sends import GrpcSends
from cometmq.proxy.routed_topic import RoutedTopic, no_route, routed_topic
from cometmq.proxy.services.clients import GrpcClient
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.receipt_handles import expired, of_other_broker
from cometmq.proxy.v2.sent_messages import SendLimits, SentMessage
from cometmq.proxy.v2.statuses import ProxyRefusal
from cometmq.steps.steps import Steps, elsewhere


class LocalBackend:
    """The services of a master broker in this process; implements `Backend`."""

    def __init__(self, role: RunningRole) -> None:
        """Use the services of a role; raise ProxyRefusal (HA_NOT_AVAILABLE) for a slave, or while the role changes."""
        found: dict[type[Feature], Feature] = {type(each): each for each in role.features}
        pop, retries = found.get(PopFeature), found.get(RetryHandler)
        timer, transactions = found.get(Timer), found.get(Transactions)
        parts = self._parts = role.parts
        if (
            parts.settings.is_slave
            or not isinstance(pop, PopFeature)
            or not isinstance(retries, RetryHandler)
            or not isinstance(timer, Timer)
            or not isinstance(transactions, Transactions)
        ):
            raise ProxyRefusal(
                pb.HA_NOT_AVAILABLE,
                "this broker is a slave, or its role is being changed; ask the master",
            )
        self._name = parts.settings.broker_name
        self._sends = GrpcSends(role.sends, self._name)
        self._pop = pop
        self._retries = retries.retries
        self._timer = timer
        self._transactions = transactions
        self._pulls = pulls_of(parts)
        self._committed = CommittedOffsets(parts)
        self._offsets = QueueOffsets(parts.store)
        self._heartbeats = Heartbeats(parts, announce=role.tell_nameservers)
        # The topics as they were last asked for, with the configuration and permissions from which they are made.
        self._routed: dict[str, tuple[TopicConfig, int, RoutedTopic]] = {}

    # --- topics, groups and this broker

    @property
    def limits(self) -> SendLimits:
        """The limits of the broker's settings."""
        settings = self._parts.settings
        return SendLimits(settings.body_size_max, settings.timer_max_delay_seconds * 1_000)

    def topic(self, name: str) -> Steps[RoutedTopic]:
        """Return a topic with its queues on this broker; raise ProxyRefusal (TOPIC_NOT_FOUND) if it is missing."""
        yield from ()
        config, perm = self._parts.topics.get(name), self._parts.settings.perm
        if config is None:
            self._routed.pop(name, None)
            raise no_route(name)
        known = self._routed.get(name)
        if known is None or known[0] is not config or known[1] != perm:
            queues = QueueData(
                self._name, config.read_queues, config.write_queues, config.perm & perm
            )
            known = config, perm, routed_topic(name, (queues,), config.attributes)
            self._routed[name] = known
        return known[2]

    def group(self, name: str) -> Steps[GroupConfig]:
        """Return the settings of a group, or those of a new one."""
        yield from ()
        return self._parts.groups.peek(name) or GroupConfig(name)

    def broker(self, topic: str, named: str) -> Steps[str]:
        """Return the name of this broker; raise ProxyRefusal (BAD_REQUEST) if another one is named."""
        yield from ()
        if named not in ("", self._name):
            raise ProxyRefusal(pb.BAD_REQUEST, f"cannot find broker {named}")
        return self._name

    def register(
        self, heartbeat: Heartbeat, client: GrpcClient, asker: Asker
    ) -> Steps[object] | None:
        """Register a client in its groups, as a remoting heartbeat does; the steps wait for nameservers."""
        member = Client(
            client.client_id, client, asker, client.language, client.version,
            self._parts.clock.monotonic(),
        )  # fmt: skip
        result = self._heartbeats.take(heartbeat, member)
        if not isinstance(result, tuple):
            return result
        if result.refusal is not None:
            raise result.refusal
        return None

    # --- messages

    def send(
        self, sent: SentMessage, topic: RoutedTopic, client: GrpcClient, entry: SendEntry
    ) -> None:
        """Store a message soon; see `GrpcSends.put`."""
        self._sends.put(sent, topic, client.address, entry)

    def pop(
        self,
        broker_name: str,
        request: PopRequest,
        caller: Caller[PopResult],
    ) -> Steps[PopResult | None]:
        """Pop messages, or wait for some."""
        return self._pop.popping.pop(request, caller)

    def held(self, receipts: Sequence[Receipt], topic: str, group: str) -> list[HiddenMessages]:
        """Return the open check points, or locks of queues popped in order, that hide these messages."""
        holding = self._pop.holding
        found = dict.fromkeys(holding.find(each, topic, group) for each in receipts)
        return [_LocalHeld(holding, each) for each in found if each is not None]

    def acknowledge(
        self, receipts: Sequence[Receipt], topic: str, group: str
    ) -> Steps[list[Exception | None]]:
        """Acknowledge messages, also if that is repeated before the time of their handle is over."""
        yield from ()
        outcomes = list[Exception | None]()
        for each in receipts:
            try:
                self._check_broker(each)
                if self._is_late(each) and not self._is_held(each, topic, group):
                    raise expired()  # noqa: TRY301
                self._acknowledge(each, topic, group)
            except Exception as error:  # noqa: BLE001  The others are acknowledged.
                outcomes.append(error)
            else:
                outcomes.append(None)
        return outcomes

    def _acknowledge(self, receipt: Receipt, topic: str, group: str) -> None:
        name = real_topic(topic, group, receipt.kind)
        self._pop.acks.ack(
            AckRequest(group, name, receipt.queue_id, str(receipt), receipt.queue_offset)
        )

    def change(
        self, receipt: Receipt, topic: str, group: str, invisible_ms: int
    ) -> Steps[Receipt]:
        """Hide a message for a time from now on; raise ProxyRefusal if it is not hidden any more."""
        yield from ()
        self._check_broker(receipt)
        if not self._is_held(receipt, topic, group):
            raise expired()
        name = real_topic(topic, group, receipt.kind)
        changed = self._pop.acks.change_invisible_time(
            ChangeInvisibleTimeRequest(
                group, name, receipt.queue_id, str(receipt), receipt.queue_offset, invisible_ms
            )
        )
        return receipt._replace(
            start_offset=receipt.queue_offset,
            pop_time_ms=changed.pop_time_ms,
            invisible_ms=changed.invisible_ms,
            revive_queue=changed.revive_queue,
        )

    def bury(
        self, receipt: Receipt, physical_offset: int | None, topic: str, group: str
    ) -> Steps[None]:
        """Store a message as a dead letter and acknowledge it; nothing is done for one that is not hidden any more."""
        self._check_broker(receipt)
        if not self._is_held(receipt, topic, group):
            return
        found = yield from self._place(real_topic(topic, group, receipt.kind), receipt)
        if found is not None:
            if physical_offset not in (None, found):
                raise expired("receipt handle is invalid: it names another place in the log")
            back = SendBackRequest(found, group, -1, max_reconsume_times=0)
            yield from self._retries.give_back(back, version=VERSION, may=any_topic)
        self._acknowledge(receipt, topic, group)

    def _place(self, topic: str, receipt: Receipt) -> Steps[int | None]:
        """Return the physical offset of the message of a handle; None if the broker does not have it any more."""
        found = self._parts.store.get(
            topic, receipt.queue_id, receipt.queue_offset, max_count=1
        )
        if found.cold is not None:
            found = yield from elsewhere(found.cold)
        for piece in found.records:
            record = decode_record(piece)
            if record.queue_offset == receipt.queue_offset:
                return record.physical_offset
        return None

    def _check_broker(self, receipt: Receipt) -> None:
        if receipt.broker_name != self._name:
            raise of_other_broker(receipt.broker_name)

    def _is_held(self, receipt: Receipt, topic: str, group: str) -> bool:
        """Return whether the message of a handle is still hidden from its group since the pop that the handle names."""
        held = self._pop.holding.find(receipt, topic, group)
        return held is not None and receipt.queue_offset in self._pop.holding.offsets(held)

    def _is_late(self, receipt: Receipt) -> bool:
        return receipt.pop_time_ms + receipt.invisible_ms <= self._parts.clock.now_ms()

    # --- transactions and timed messages

    def end_transaction(
        self,
        broker_name: str,
        wanted: EndTransaction,
        asker: Asker,
    ) -> Steps[object]:
        """Commit or roll back a half message whose topic the sender may write."""
        return self._transactions.ends.end(wanted, may_of(asker, Action.PUB))

    def recall(self, wanted: RecallRequest, client: GrpcClient) -> Steps[str]:
        """Cancel a timed message, without a check whether it still waits; return its message id."""
        found = yield from self._timer.recall.recall(wanted, encode_host(client.address))
        return found.unique_key

    # --- offsets

    def pull(
        self,
        broker_name: str,
        request: PullRequest,
        caller: Caller[PullAnswer],
    ) -> Steps[PullAnswer | None]:
        """Pull messages, or wait for some."""
        yield from ()
        caller.answer(lambda: self._pulls.pull(request, caller))
        return None

    def commit(self, broker_name: str, wanted: UpdateConsumerOffset) -> Steps[None]:
        """Commit the offset of a group in a queue."""
        yield from ()
        self._committed.commit(wanted)

    def committed(self, broker_name: str, wanted: QueryConsumerOffset) -> Steps[int]:
        """Return the committed offset of a group in a queue."""
        return self._committed.find(wanted)

    def first_offset(self, queue: MessageQueue) -> Steps[int]:
        """Return the offset of the first message of a queue."""
        yield from ()
        return self._offsets.beginning(QueueRequest(queue.topic, queue.queue_id))

    def end_offset(self, queue: MessageQueue) -> Steps[int]:
        """Return the offset after the last message of a queue."""
        yield from ()
        return self._offsets.end(QueueRequest(queue.topic, queue.queue_id))

    def offset_by_time(self, queue: MessageQueue, time_ms: int) -> Steps[int]:
        """Return the offset of the first message stored at or after a time, or the queue's end."""
        return self._offsets.by_time(SearchOffset(queue.topic, queue.queue_id, time_ms))


class _LocalHeld:
    """The messages of an open check point, or of a queue popped in order."""

    __slots__ = ("_held", "_holding")

    def __init__(self, holding: Holding, held: HeldMessages) -> None:
        self._holding = holding
        self._held = held

    @property
    def is_over(self) -> bool:
        """Whether none of them is hidden any more, for example because all are acknowledged."""
        return not self._holding.offsets(self._held)

    def extend(self, invisible_ms: int) -> None:
        """Hide the messages for a time from now on; StoreError: they are hidden, but a restart would forget that."""
        self._holding.extend(self._held, invisible_ms)

    def release(self) -> None:
        """Let those that are still hidden be delivered again now."""
        self._holding.release(self._held)
