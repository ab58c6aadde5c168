"""The runtime numbers of a broker (28), which consoles and mqadmin display.

Most keys are those of AdminBrokerProcessor.prepareRuntimeInfo and StoreStatsService of RocketMQ 5.3.3. Numbers of parts
that this design does not have (such as thread pools and their queues) are usually 0, for tools that expect them.
"""

from collections.abc import Callable, Mapping, Sequence
from json import dumps

from cometmq.broker.admin.unread_queues import UnreadQueues
from cometmq.broker.inner.redelivery import dispatched_record
from cometmq.broker.parts import Parts
from cometmq.codec.bodies.kv import encode_kv_table
from cometmq.codec.record import decode_record
from cometmq.codec.remoting import Command
from cometmq.model.codes import VERSION, VERSION_DESCRIPTION, RequestCode
from cometmq.model.errors import CodecError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.process.build import this_build
from cometmq.process.descriptors import in_use, limit
from cometmq.steps.shared import SharedSteps
from cometmq.steps.steps import Steps
from cometmq.store.disk import Space
from cometmq.store.message_store import MessageStore

_POOLS = ("send", "pull", "litePull", "query", "ack")
_STEP, _POWERS = 1024, " KMGTPE"
# Java's number of free buffers if it has no pool: Integer.MAX_VALUE.
_NO_POOL = 0x7FFFFFFF
_GIB = 1 << 30


class RuntimeHandler:
    """Handles GET_BROKER_RUNTIME_INFO, the figures of store, rates and waiting requests."""

    def __init__(
        self,
        parts: Parts,
        *,
        facts: Sequence[Callable[[], Mapping[str, str]]] = (),
    ) -> None:
        """Each of `facts` returns numbers of a feature of the broker."""
        self._facts = facts
        self._body = SharedSteps(parts.world, self._make)
        self._settings, self._store = parts.settings, parts.store
        self._counters, self._clock = parts.counters, parts.clock
        self._started_ms = parts.clock.now_ms()
        self._unread = UnreadQueues(parts)
        self.answers: Answers = {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime,
        }

    def runtime(self, _command: Command, _peer: Peer) -> Steps[Answer]:
        """Return the runtime numbers as a key-value table in JSON (GET_BROKER_RUNTIME_INFO 28)."""
        return Answer(body=(yield from self._body.result()))

    def _make(self) -> Steps[bytes]:
        earliest = yield from earliest_time(self._store)
        unread = yield from self._unread.counts()
        table = {
            "earliestMessageTimeStamp": str(earliest),
            **self._identity(),
            **self._totals(),
            **self._rates(),
            **self._positions(),
            **self._disk(),
        }
        for facts in self._facts:
            table |= facts()
        # Java's brokers do not have the following three.
        table["messagesBehindReadQueues"] = dumps(unread)
        used = in_use()
        table |= {} if used is None else {"openFileDescriptors": str(used)}
        table["maxFileDescriptors"] = str(limit())
        for pool in _POOLS:
            table[f"{pool}ThreadPoolQueueSize"] = "0"
            table[f"{pool}ThreadPoolQueueCapacity"] = "0"
            table[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        return encode_kv_table(dict(sorted(table.items())))

    def _identity(self) -> dict[str, str]:
        build = this_build()
        return {
            "brokerActive": "true",
            "brokerVersionDesc": VERSION_DESCRIPTION,
            "brokerVersion": str(VERSION),
            # Only CometMQ's brokers have these three, by which a mixed cluster and an upgrade can be told.
            "cometmqVersion": build.version,
            "cometmqKernel": build.kernel,
            "cometmqPython": build.python,
            "bootTimestamp": str(self._started_ms),
            "runtime": _age_text(self._clock.now_ms() - self._started_ms),
            "startAcceptSendRequestTimeStamp": str(self._settings.accept_sends_from_ms),
        }

    def _totals(self) -> dict[str, str]:
        counters = self._counters
        latencies, (today, before) = counters.put_latencies, (
            counters.at_midnights.today, counters.at_midnights.yesterday,
        )  # fmt: skip
        put, got = counters.of_today
        average = counters.put_size / counters.put_count if counters.put_count else 0.0
        return {
            # Totals start with the process.
            "msgPutTotalYesterdayMorning": str(before[0]),
            "msgPutTotalTodayMorning": str(today[0]),
            "msgPutTotalTodayNow": str(put),
            "msgGetTotalYesterdayMorning": str(before[1]),
            "msgGetTotalTodayMorning": str(today[1]),
            "msgGetTotalTodayNow": str(got),
            "putMessageTimesTotal": str(counters.put_count),
            "putMessageFailedTimes": str(counters.put_failed),
            "putMessageSizeTotal": str(counters.put_size),
            "putMessageAverageSize": str(average),
            "putMessageEntireTimeMax": str(latencies.max_us // 1000),
            "getMessageEntireTimeMax": str(counters.get_max_us // 1000),
            "putMessageDistributeTime": latencies.distribution(),
            "putLatency99": f"{latencies.percentile_ms(0.99):.2f}",
            "putLatency999": f"{latencies.percentile_ms(0.999):.2f}",
        }

    def _rates(self) -> dict[str, str]:
        rates = self._counters.rates(self._clock.monotonic())
        names = {
            "put": "putTps", "found": "getFoundTps", "missed": "getMissTps",
            "get": "getTransferredTps",
        }  # fmt: skip
        table = {names[kind]: _three(values) for kind, values in rates.items()}
        both = tuple(sum(pair) for pair in zip(rates["found"], rates["missed"], strict=True))
        return {**table, "getTotalTps": _three(both)}

    def _positions(self) -> dict[str, str]:
        store = self._store
        return {
            "commitLogMinOffset": str(store.min_offset),
            "commitLogMaxOffset": str(store.max_offset),
            "dispatchBehindBytes": str(store.max_offset - store.dispatched_offset),
            "dispatchMaxBuffer": "0",
            "pageCacheLockTimeMills": "0",
            "remainHowManyDataToFlush": _size(store.max_offset - store.flushed_offset),
            "remainHowManyDataToCommit": _size(store.max_offset - store.positions.committed),
            "remainTransientStoreBufferNumbs": str(_NO_POOL),
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": "0",
            "storeRefusal": store.refusal or "",
        }

    def _disk(self) -> dict[str, str]:
        room = self._store.room
        total, free = room.log.total / _GIB, room.log.available / _GIB
        return {
            "commitLogDiskRatio": _ratio(room.log),
            "consumeQueueDiskRatio": _ratio(room.queues),
            "commitLogDirCapacity": f"Total : {total:.1f} GiB, Free : {free:.1f} GiB.",
            **{
                f"commitLogDiskRatio_{path}": _ratio(space)
                for path, space in room.spaces.items()
            },
        }


def earliest_time(store: MessageStore) -> Steps[int]:
    """Return the store time of the oldest message, epoch ms; -1 if there is none or it cannot be decoded."""
    content = yield from dispatched_record(store, store.min_offset)
    try:
        return -1 if content is None else decode_record(content).store_timestamp
    except CodecError:
        return -1


def _ratio(space: Space) -> str:
    return f"{space.used / max(space.total, 1):.4f}"


def _size(count: int) -> str:
    """Format a number of bytes as Java's humanReadableByteCount does."""
    size, power = float(count), 0
    while size >= _STEP and power < len(_POWERS) - 1:
        size, power = size / _STEP, power + 1
    return f"{size:.1f} {_POWERS[power]}iB" if power else f"{count} B"


def _three(values: tuple[float, ...]) -> str:
    """Format rates of 10, 60 and 600 seconds as Java does."""
    return " ".join(f"{value:.4f}" for value in values)


def _age_text(age_ms: int) -> str:
    seconds = age_ms // 1000
    return (
        f"[ {seconds // 86400} days, {seconds // 3600 % 24} hours, "
        f"{seconds // 60 % 60} minutes, {seconds % 60} seconds ]"
    )
