"""The brokers of a cluster as the methods of the proxy call them: requests of our client library, and what it knows of routes.

The proxy sends them under its own account; it has checked the rights of its clients before.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from cometmq.broker.loop.caller import Caller
from cometmq.broker.pop.popping import PopResult
from cometmq.broker.pull.pulls import PullAnswer
from cometmq.client.api.asking import read_fields, side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.api.consuming import (
    NO_MESSAGES,
    ConsumeApi,
    pull_command,
)
from cometmq.client.api.messages import MessageApi
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.api.transactions import HalfMessage, TransactionApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.connection.routes import KnownTopic
from cometmq.client.consumer.pop.pops import batch_acks, popped_receipt
from cometmq.codec.bodies.heartbeat import Heartbeat
from cometmq.codec.headers.offset import QueryConsumerOffset, UpdateConsumerOffset
from cometmq.codec.headers.pop import PopRequest, PopResponse
from cometmq.codec.headers.pull import PullRequest, PullResponse
from cometmq.codec.headers.send import RecallRequest, SendBackRequest
from cometmq.codec.headers.transaction import EndTransaction
from cometmq.codec.recall_handle import decode_recall_handle
from cometmq.codec.receipt import Receipt, decode_starts, real_topic
from cometmq.codec.record import decode_record, decode_records
from cometmq.codec.remoting import Command
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    CodecError,
    CometError,
    NetError,
    RequestError,
    TopicNotFound,
)
from cometmq.model.group import GroupConfig
from cometmq.model.names import is_derived_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.rights import Asker
from cometmq.model.route import MASTER_ID, QueueData
from cometmq.model.text import in_quotes
from cometmq.net.tasks import Tasks
from cometmq.proxy.backend import HiddenMessages, SendEntry
from cometmq.proxy.cluster.hidden import HiddenOfBrokers, ack_request, change_request, following
from cometmq.proxy.cluster.known_settings import KnownSettings
from cometmq.proxy.cluster.members import PROXY_GROUP, ClusterMembers
from cometmq.proxy.cluster.sends import ClusterSends
from cometmq.proxy.cluster.waits import Waits, refusal_of
from cometmq.proxy.routed_topic import RoutedTopic, no_route, routed_topic
from cometmq.proxy.services.clients import GrpcClient
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.receipt_handles import OF_HANDLES, expired, of_other_broker
from cometmq.proxy.v2.sent_messages import SendLimits, SentMessage
from cometmq.proxy.v2.statuses import ProxyRefusal
from cometmq.steps.steps import Steps

# How much longer than a request may wait at a broker its answer is waited for, ms.
_MARGIN_MS = 3_000
# How long a handle is kept when it is asked whether its message is still hidden, before it is acknowledged or changed, ms.
_KEPT_MS = 10_000
# Part of the remark with which brokers, RocketMQ's as well, refuse to show a message that they do not have; the code says less.
_NOT_IN_LOG = "can not find message by the offset"
_UNKNOWN_GROUP = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
_PULL_CODES = (
    ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)  # fmt: skip


class ClusterBackend:
    """The brokers that a nameserver lists; implements `Backend`."""

    def __init__(self, instance: ClientInstance, limits: SendLimits, tasks: Tasks) -> None:
        """`instance` has been started; `limits` are checked here, and the brokers have limits of their own."""
        self.limits = limits
        self.members: ClusterMembers | None = None
        self._instance = instance
        self._tasks = tasks
        self._waits = Waits()
        self._consume = ConsumeApi(instance)
        self._brokers = BrokerApi(instance)
        self._messages = MessageApi(instance)
        self._offsets = OffsetApi(instance)
        self._sends = ClusterSends(instance, PROXY_GROUP, limits.body_size_max)
        self._hidden = HiddenOfBrokers(self._consume, self._keeper, tasks)
        self._attributes = KnownSettings(self._find_attributes, instance.clock)
        self._groups = KnownSettings(self._find_group, instance.clock)
        # The topics as they were last asked for, with the route, which the client keeps as well, and attributes.
        self._routed: dict[str, tuple[KnownTopic, object, RoutedTopic]] = {}
        self._keepers = KnownSettings(self._consume.keeps_handles, instance.clock)

    async def close(self) -> None:
        """Send nothing more; requests of calls that wait are cancelled."""
        self._sends.close()
        await self._waits.close()

    # --- topics, groups and brokers

    def topic(self, name: str) -> Steps[RoutedTopic]:
        """Return a topic with its queues at brokers that have a master."""
        known, attributes = self._instance.routes.get(name), self._attributes.peek(name)
        if known is None or known.is_inherited or attributes is None:
            known, attributes = yield from self._waits.steps(self._find_topic(name))
        routed = self._routed.get(name)
        if routed is None or routed[0] is not known or routed[1] is not attributes:
            route = known.route
            masters = {
                each.broker_name for each in route.brokers if MASTER_ID in each.addresses
            }
            queues = sorted(
                (each for each in route.queues if each.broker_name in masters), key=_name_of
            )
            routed = known, attributes, routed_topic(name, queues, attributes)
            self._routed[name] = routed
        return routed[2]

    async def _find_topic(self, name: str) -> tuple[KnownTopic, Mapping[str, str]]:
        try:
            known = await self._instance.known(name)
        except TopicNotFound:
            raise no_route(name) from None
        return known, await self._attributes.get(name)

    async def _find_attributes(self, name: str) -> Mapping[str, str]:
        """Return the attributes of a topic, which has a route, from the first of its masters that has it.

        If all answer that they do not, the route is forgotten: a nameserver's refusal alone may mean that it has just started.
        """
        if is_derived_topic(name):
            return {}
        route = (await self._instance.known(name)).route
        is_missing, away = False, None
        for broker in route.brokers:
            address = broker.addresses.get(MASTER_ID)
            if address is None:
                continue
            try:
                return (await self._brokers.topic_config(address, name)).attributes
            except BrokerRefused as refused:
                if refused.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                is_missing = True
            except NetError as failed:
                away = failed
        if is_missing and away is None:
            self._instance.routes.drop(name)
            raise no_route(name)
        raise away or BrokerNotFound(f"no broker of topic {name} has a master now")

    def group(self, name: str) -> Steps[GroupConfig]:
        """Return the settings of a group, from the first master that has it."""
        known = self._groups.peek(name)
        if known is None:
            known = yield from self._waits.steps(self._groups.get(name))
        return known

    async def _find_group(self, name: str) -> GroupConfig:
        """Return the settings of a group, or defaults if no master has it; known ones stay while a master is away."""
        is_unknown, away = False, None
        for address in list(self._instance.routes.masters.values()):
            try:
                return await self._brokers.group_config(address, name)
            except BrokerRefused as refused:
                if refused.code != _UNKNOWN_GROUP:
                    raise
                is_unknown = True
            except NetError as failed:
                away = failed
        if is_unknown and (away is None or self._groups.peek(name) is None):
            return GroupConfig(name)
        raise away or BrokerNotFound("no broker is known; can the nameserver be reached?")

    def broker(self, topic: str, named: str) -> Steps[str]:
        """Return the broker that a request names, or the topic's only one; the topic's route is fetched if it is unknown."""
        if named in self._instance.routes.masters:
            return named
        brokers = (yield from self.topic(topic)).brokers
        if not named and len(brokers) == 1:
            return brokers[0].broker_name
        if not named or named not in self._instance.routes.brokers:
            raise ProxyRefusal(pb.BAD_REQUEST, f"cannot find broker {named}")
        return named

    async def _address_of(self, broker_name: str, topic: str) -> str:
        """Return the address of the broker that a handle names; fetch the route of its topic if it is unknown."""
        routes = self._instance.routes
        if broker_name not in routes.masters and routes.get(topic) is None:
            await self._instance.known(topic)
        if broker_name not in routes.brokers:
            raise of_other_broker(broker_name)
        return self._instance.address(broker_name)

    async def _keeper(self, broker_name: str, topic: str) -> tuple[str, bool]:
        """Return a broker's address, and whether it keeps handles, as RocketMQ's do not."""
        address = await self._address_of(broker_name, topic)
        return address, await self._keepers.get(address)

    def register(
        self, heartbeat: Heartbeat, client: GrpcClient, asker: Asker
    ) -> Steps[object] | None:
        """Register a client in its groups and as a producer of its topics of transactions, of which brokers learn soon."""
        assert self.members is not None, "set before clients come"
        self.members.add(heartbeat.consumers, client)
        return self._register_producer(heartbeat, client) if heartbeat.producers else None

    def _register_producer(self, heartbeat: Heartbeat, client: GrpcClient) -> Steps[None]:
        assert self.members is not None, "set before clients come"
        found = []
        for each in heartbeat.producers:
            try:
                topic = yield from self.topic(each.group)
            except CometError:  # A topic that is missing has no transactions.
                continue
            if pb.TRANSACTION in topic.types:
                found.append(each)
        if found and not client.is_closed:
            self.members.add(found, client)

    # --- messages

    def send(
        self, sent: SentMessage, topic: RoutedTopic, client: GrpcClient, entry: SendEntry
    ) -> None:
        """Send a message; see `ClusterSends.put`."""
        self._sends.put(sent, topic.name, entry)

    def pop(
        self, broker_name: str, request: PopRequest, caller: Caller[PopResult]
    ) -> Steps[PopResult | None]:
        """Pop messages; the broker waits for some."""
        return self._waits.steps(self._pop(broker_name, request), caller.owner)

    async def _pop(self, broker_name: str, request: PopRequest) -> PopResult:
        address = self._instance.address(broker_name)
        try:
            answer = await self._consume.ask_pop(address, request)
        except BrokerRefused as refused:
            if refused.code not in NO_MESSAGES:
                raise
            return PopResult(refused.code, refused.remark, 0, 0, 0, 0, [], [], None, [])
        return _pop_result(answer, broker_name, request)

    def held(
        self, receipts: Sequence[Receipt], topic: str, group: str
    ) -> Sequence[HiddenMessages]:
        """Return what holds messages of a pop, as far as this proxy knows."""
        return self._hidden.put(list(receipts), topic, group)

    def acknowledge(
        self, receipts: Sequence[Receipt], topic: str, group: str
    ) -> Steps[list[Exception | None]]:
        """Acknowledge messages, with one request to each broker."""
        return self._waits.steps(self._acknowledge(receipts, topic, group))

    async def _acknowledge(
        self, receipts: Sequence[Receipt], topic: str, group: str
    ) -> list[Exception | None]:
        valid = await side_by_side(partial(self._valid, topic, group), receipts)
        outcomes: list[Exception | None] = [
            refusal_of(each) if isinstance(each, CometError) else None for each in valid
        ]
        by_broker: dict[str, list[Receipt]] = {}
        for each in valid:
            if isinstance(each, Receipt):
                by_broker.setdefault(each.broker_name, []).append(each)
        names = list(by_broker)
        said = await side_by_side(
            lambda name: self._ack(name, by_broker[name], topic, group), names
        )
        failed = {
            name: refusal_of(error)
            for name, error in zip(names, said, strict=True)
            if isinstance(error, CometError)
        }
        for number, (first, newest) in enumerate(zip(receipts, valid, strict=True)):
            if isinstance(newest, Receipt):
                outcomes[number] = failed.get(newest.broker_name)
                if outcomes[number] is None:
                    try:
                        await self._forget(first, newest, topic, group)
                    except CometError as error:
                        outcomes[number] = refusal_of(error)
        return outcomes

    async def _forget(self, first: Receipt, ended: Receipt, topic: str, group: str) -> None:
        """Renew a message no more; acknowledge its newest receipt, too, if a renewal made one while `ended` was ended."""
        newest = self._hidden.forget(first, topic, group)
        if newest is not None and newest != ended:
            await self._ack(newest.broker_name, [newest], topic, group)

    async def _ack(
        self, broker_name: str, receipts: Sequence[Receipt], topic: str, group: str
    ) -> None:
        address = self._instance.address(broker_name)
        if len(receipts) > 1:
            acks = batch_acks(group, [(topic, each) for each in receipts])
            await self._consume.ack_many(address, broker_name, acks)
            return
        await self._consume.ack(address, ack_request(receipts[0], topic, group))

    async def _valid(self, topic: str, group: str, receipt: Receipt) -> Receipt:
        """Return the newest receipt of a message; raise ProxyRefusal if its time is over, or its broker unknown."""
        found = await self._find(topic, group, receipt)
        if found is None:
            raise expired()
        return found

    async def _find(
        self, topic: str, group: str, receipt: Receipt, *, is_asked: bool = False
    ) -> Receipt | None:
        """Return the newest receipt of a message, or None if its time is over.

        A broker that keeps handles is asked whether it is hidden still, always (`is_asked`) or if the time in the handle is over.
        """
        newest = self._hidden.newest(receipt, topic, group)
        if newest == receipt and not is_asked:
            return receipt  # It is renewed here, under this handle or for the first time later.
        found = newest or receipt
        # An unknown broker is refused in any case.
        await self._address_of(found.broker_name, topic)
        is_late = found.pop_time_ms + found.invisible_ms <= self._instance.clock.now_ms()
        if not (is_late or is_asked):
            return found
        address, keeps_handles = await self._keeper(found.broker_name, topic)
        if not keeps_handles:
            return None if is_late and newest != receipt else found
        try:
            await self._hidden.keep(address, found, topic, group, _KEPT_MS, found.queue_offset)
        except BrokerRefused as refused:
            if refused.code not in OF_HANDLES:
                raise
            return None
        return found

    def change(
        self, receipt: Receipt, topic: str, group: str, invisible_ms: int
    ) -> Steps[Receipt]:
        """Hide a message for a time from now on."""
        return self._waits.steps(self._change(receipt, topic, group, invisible_ms))

    async def _change(
        self, receipt: Receipt, topic: str, group: str, invisible_ms: int
    ) -> Receipt:
        newest = await self._find(topic, group, receipt, is_asked=True)
        if newest is None:
            raise expired()
        address = self._instance.address(newest.broker_name)
        told = await self._consume.change_invisibility(
            address, change_request(newest, topic, group, invisible_ms)
        )
        await self._forget(receipt, newest, topic, group)
        return following(newest, told)

    def bury(
        self, receipt: Receipt, physical_offset: int | None, topic: str, group: str
    ) -> Steps[None]:
        """Have the broker store a message as a dead letter, then acknowledge it; nothing is done for one that is not hidden any more."""
        return self._waits.steps(self._bury(receipt, physical_offset, topic, group))

    async def _bury(
        self, receipt: Receipt, physical_offset: int | None, topic: str, group: str
    ) -> None:
        if physical_offset is None:
            raise expired("receipt handle is invalid: it has no offset in the log")
        newest = await self._find(topic, group, receipt, is_asked=True)
        if newest is None:
            return
        address = self._instance.address(newest.broker_name)
        # RocketMQ's broker needs the topic.
        name = real_topic(topic, group, newest.kind)
        if await self._is_there(address, name, newest, physical_offset):
            back = SendBackRequest(
                physical_offset, group, -1, origin_topic=name, max_reconsume_times=0
            )
            await self._consume.send_back(address, back)
        await self._ack(newest.broker_name, [newest], topic, group)
        await self._forget(receipt, newest, topic, group)

    async def _is_there(
        self, address: str, topic: str, receipt: Receipt, physical_offset: int
    ) -> bool:
        """Return whether the log has a message at an offset; raise ProxyRefusal if it is not that of the receipt.

        The offset comes from the client, and the broker would take any message for the proxy's account.
        """
        try:
            record = decode_record(await self._messages.view(address, physical_offset))
        except BrokerRefused as refused:
            if _NOT_IN_LOG not in refused.remark:
                raise
            return False
        except (
            CodecError
        ):  # RocketMQ's broker returns what it has there, be it the middle of a record.
            raise _of_other_place() from None
        if (record.topic, record.queue_id, record.queue_offset) != (
            topic, receipt.queue_id, receipt.queue_offset,
        ):  # fmt: skip
            raise _of_other_place()
        return True

    # --- transactions and timed messages

    def end_transaction(
        self, broker_name: str, wanted: EndTransaction, asker: Asker
    ) -> Steps[object]:
        """Commit or roll back a half message."""
        return self._waits.steps(self._end_transaction(broker_name, wanted))

    async def _end_transaction(self, broker_name: str, wanted: EndTransaction) -> None:
        half = HalfMessage(
            wanted.msg_id, wanted.topic or "", broker_name, wanted.tran_state_table_offset,
            wanted.commit_log_offset,
        )  # fmt: skip
        api = TransactionApi(self._instance, wanted.producer_group)
        address, state = self._instance.address(broker_name), wanted.commit_or_rollback
        await api.end(address, half, state, is_late=bool(wanted.from_transaction_check))

    def recall(self, wanted: RecallRequest, client: GrpcClient) -> Steps[str]:
        """Cancel a timed message at the broker that its handle names."""
        try:
            handle = decode_recall_handle(wanted.recall_handle)
        except CodecError as error:
            raise ProxyRefusal(pb.BAD_REQUEST, str(error)) from None
        broker_name = yield from self.broker(wanted.topic, handle.broker_name)
        return (yield from self._waits.steps(self._recall(broker_name, wanted)))

    async def _recall(self, broker_name: str, wanted: RecallRequest) -> str:
        address = self._instance.address(broker_name)
        return await self._messages.recall(address, wanted.topic, wanted.recall_handle)

    # --- offsets

    def pull(
        self, broker_name: str, request: PullRequest, caller: Caller[PullAnswer]
    ) -> Steps[PullAnswer | None]:
        """Pull messages; the broker waits for some."""
        return self._waits.steps(self._pull(broker_name, request), caller.owner)

    async def _pull(self, broker_name: str, request: PullRequest) -> PullAnswer:
        address = self._instance.address(broker_name)
        timeout_ms = request.suspend_timeout_millis + _MARGIN_MS
        channel = await self._instance.channels.get(address)
        answer = await channel.call(pull_command(request), timeout_ms=timeout_ms)
        remark = answer.remark or ""
        if answer.code not in _PULL_CODES:
            raise BrokerRefused(answer.code, remark, address)
        told = read_fields(PullResponse, answer, f"the answer to a pull of {request.topic}")
        return PullAnswer(
            answer.code, remark, told.next_begin_offset, told.min_offset, told.max_offset,
            told.suggest_which_broker_id, [memoryview(answer.body)], 0, 0,
        )  # fmt: skip

    def commit(self, broker_name: str, wanted: UpdateConsumerOffset) -> Steps[None]:
        """Commit the offset of a group in a queue."""
        queue = MessageQueue(wanted.topic, broker_name, wanted.queue_id)
        return self._waits.steps(
            self._offsets.commit(wanted.consumer_group, queue, wanted.commit_offset)
        )

    def committed(self, broker_name: str, wanted: QueryConsumerOffset) -> Steps[int]:
        """Return the committed offset of a group in a queue."""
        queue = MessageQueue(wanted.topic, broker_name, wanted.queue_id)
        found = yield from self._waits.steps(
            self._offsets.committed(wanted.consumer_group, queue, may_be_zero=False)
        )
        if found is None:
            raise RequestError(
                ResponseCode.QUERY_NOT_FOUND, "the group has committed no offset"
            )
        return found

    def first_offset(self, queue: MessageQueue) -> Steps[int]:
        """Return the offset of the first message of a queue."""
        return self._waits.steps(self._offsets.min_offset(queue))

    def end_offset(self, queue: MessageQueue) -> Steps[int]:
        """Return the offset after the last message of a queue."""
        return self._waits.steps(self._offsets.max_offset(queue))

    def offset_by_time(self, queue: MessageQueue, time_ms: int) -> Steps[int]:
        """Return the offset of the first message stored at or after a time, or the queue's end."""
        return self._waits.steps(self._offsets.offset_by_time(queue, time_ms))


def _of_other_place() -> ProxyRefusal:
    return expired("receipt handle is invalid: it names another place in the log")


def _name_of(queues: QueueData) -> str:
    return queues.broker_name


def _pop_result(answer: Command, broker_name: str, request: PopRequest) -> PopResult:
    """Return the answer to a pop with a place for each of its records, in their order."""
    told = read_fields(PopResponse, answer, f"the answer to a pop of {request.topic}")
    starts = decode_starts(told.start_offset_info or "")
    records = decode_records(answer.body, most=request.max_msg_nums)
    receipts = [popped_receipt(told, starts, each, broker_name) for each in records]
    return PopResult(
        ResponseCode.SUCCESS, answer.remark or "", told.pop_time, told.invisible_time,
        told.revive_qid, told.rest_num,
        [(each.kind, each.queue_id, each.start_offset) for each in receipts],
        [(each.kind, each.queue_id, [each.queue_offset]) for each in receipts],
        _order_counts(told.order_count_info) if request.order else None, [answer.body],
    )  # fmt: skip


def _order_counts(text: str | None) -> list[tuple[str, str, int]]:
    """Return the numbers of earlier deliveries in the answer to a pop in order: "kind place count;..."."""
    try:
        parts = [part.split(" ") for part in text.split(";")] if text else []
        return [(kind, place, int(count)) for kind, place, count in parts]
    except ValueError:
        raise CodecError(f"orderCountInfo {in_quotes(str(text))} is not valid") from None
