"""Sends: all of one read become records with one write, and are answered with one write.

The straight way takes a plain message to a queue whose lane is open: its letters are read from the
header's fields, and what might be special about its properties is found by substring tests. What
is special in any way goes through `admission`, which checks everything and says what to do. The
meaning is the same; only the time differs (docs/broker.md).

With SYNC_FLUSH the finished answers of a read wait for the disk together; after a failed or late
flush the same answers go out with FLUSH_DISK_TIMEOUT.

Next: cometmq.store.appender
"""

import asyncio
from collections.abc import Callable

from cometmq.broker.admission import Admission, Admitted
from cometmq.broker.counters import Counters
from cometmq.broker.lanes import Lanes
from cometmq.codec.properties import PROPERTIES_SIZE_MAX
from cometmq.codec.remoting import Command, RawCommand
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CometError, RecordIllegal, StoreError
from cometmq.model.flags import ONEWAY
from cometmq.model.java_hash import java_hash
from cometmq.net.answer import answer_to_error
from cometmq.net.dispatcher import BatchHandler
from cometmq.net.peer import Peer
from cometmq.store.appender import Put, PutResult
from cometmq.store.message_store import MessageStore

_SEND_V2 = int(RequestCode.SEND_MESSAGE_V2)
# Born times of 13 digits (the years 2001 to 2286) need no check of their range.
_BORN_DIGITS = 13

# An answer's header around its numbers; `Lane.answer_start` stands in front.
_MIDDLE = '"},"flag":1,"language":"PYTHON","opaque":'
_END = ',"serializeTypeCurrentRPC":"JSON","version":479}'
# Prefix of a frame without a body, by the size of its header; the answers of a read are joined as
# text and become bytes at once.
_PREFIX_SIZE_MAX = 1024


def _prefix(size: int) -> str:
    return ((size + 4).to_bytes(4) + size.to_bytes(4)).decode("latin-1")


_PREFIXES = tuple(map(_prefix, range(_PREFIX_SIZE_MAX)))
# Every header begins so; after a late flush it begins with the other.
_CODE_SIZE = len('{"code":0')
_LATE_START = f'{{"code":{ResponseCode.FLUSH_DISK_TIMEOUT:d}'


# A send whose record is being written: opaque, the answer's header up to the physical offset (None
# when nobody waits for an answer), the unique key as JSON has it.
Pending = tuple[int, str | None, str]


class SendHandler(BatchHandler):
    """Handles SEND_MESSAGE 10, SEND_MESSAGE_V2 310 and SEND_BATCH_MESSAGE 320."""

    def __init__(
        self,
        *,
        store: MessageStore,
        lanes: Lanes,
        admission: Admission,
        counters: Counters,
        on_written: Callable[[], None],
    ) -> None:
        """`on_written` is called after a read's answers: files ahead, flush (broker.flusher)."""
        self._store = store
        self._straight = lanes.straight
        self._admission = admission
        self._counters = counters
        self._on_written = on_written
        self._suffix = admission.property_suffix.encode()
        self._text_size_max = PROPERTIES_SIZE_MAX - len(self._suffix) - 1
        self._body_size_max = admission.body_size_max
        self._host = store.store_host.hex().upper()
        self._is_flush_sync = store.settings.flush_sync

    def handle(self, commands: list[RawCommand], peer: Peer) -> None:
        """Store the messages of one read and answer them.

        One loop without calls, on purpose: this is the path that a broker's speed is made of
        (bench/README.md).
        """
        straight, suffix, host = self._straight, self._suffix, peer.host
        text_size_max, body_size_max = self._text_size_max, self._body_size_max
        puts: list[Put] = []
        pending: list[Pending] = []
        for command in commands:
            code, flag, opaque, _, _, _, fields, body, _ = command
            try:
                queue, topic, answer_start, _ = straight[fields["b"]][fields["e"]]
                text = fields["i"]
                key_at = text.index("UNIQ_KEY\1") + 9
                key = text[key_at : text.index("\2", key_at)]
                born = fields["g"]
                if (
                    fields["m"] == "true"
                    or fields["f"] != "0"
                    or code != _SEND_V2
                    or not 0 < len(body) <= body_size_max
                    or len(born) != _BORN_DIGITS
                    or not (key.isascii() and key.isalnum())
                    or not text.endswith("\2")
                    or "DELAY\1" in text
                    or "TIMER_D" in text
                    or "TRAN_MSG\1" in text
                    or "WAIT\1f" in text
                    or "POP_CK\1" in text
                ):
                    raise ValueError  # noqa: TRY301  One way out of the straight way.
                properties = text.encode() + suffix
                tags_at = text.find("TAGS\1")
                if tags_at < 0:
                    tags_code = 0
                elif tags_at == 0 or text[tags_at - 1] == "\2":
                    tags_code = java_hash(text[tags_at + 5 : text.index("\2", tags_at)])
                else:
                    raise ValueError  # noqa: TRY301
                if len(properties) > text_size_max:
                    raise ValueError  # noqa: TRY301
                user_flag, tries = fields["h"], fields.get("j")
                puts.append(
                    (
                        queue, topic, body, properties, tags_code,
                        0 if user_flag == "0" else _int32(user_flag),
                        0, int(born), host,
                        0 if tries == "0" or tries is None else _int32(tries),
                        0, 0,
                    )
                )  # fmt: skip
                pending.append((opaque, None if flag & ONEWAY else answer_start, key))
            except (KeyError, ValueError, TypeError, AttributeError):
                # Also a field that is no text: the header's JSON may hold anything.
                self._take_special(command, peer, puts, pending)
        self._store_and_answer(puts, pending, peer)

    def written(self) -> None:
        """The answers are on the wire: now consumers may see the messages."""
        self._store.dispatch_pending()
        self._on_written()

    # --- what is special

    def _take_special(
        self,
        command: RawCommand,
        peer: Peer,
        puts: list[Put],
        pending: list[Pending],
    ) -> None:
        try:
            admitted = self._admission.admit(Command(*command), peer)
        except CometError as error:
            peer.answer(command, answer_to_error(error, command))
            return
        one = (
            command[2],
            None if command[1] & ONEWAY else admitted.answer_start,
            admitted.transaction_id,
        )
        if admitted.is_ordinary:
            puts.append(admitted.puts[0])
            pending.append(one)
            return
        # It keeps its place behind what this read has gathered so far.
        self._store_and_answer(puts.copy(), pending.copy(), peer)
        puts.clear()
        pending.clear()
        self._store_apart(admitted, one, peer)

    def _store_apart(self, admitted: Admitted, one: Pending, peer: Peer) -> None:
        """Store a batch, a message that awaits no flush, or the first ones of a new topic."""
        put = self._store.put_batch if admitted.is_batch else self._store.put_many
        try:
            results = put(admitted.puts)
        except StoreError as error:
            self._refuse([one], error, peer)
            return
        self._count(results)
        answered = _as_one(one, results, self._host)

        def saved(saving: "asyncio.Future[None] | None") -> None:
            error = saving.exception() if saving is not None else None
            if error is not None:
                self._refuse([one], error, peer)
            elif admitted.is_flush_awaited:
                self._answer(*answered, peer)
            else:
                peer.write(_frames(*answered))

        if admitted.saving is None:
            saved(None)
        else:
            # Who is told of a message in a new topic must find the topic after a power cut.
            admitted.saving.add_done_callback(saved)

    # --- storing and answering

    def _store_and_answer(self, puts: list[Put], pending: list[Pending], peer: Peer) -> None:
        if not puts:
            return
        try:
            results = self._store.put_many(puts)
        except RecordIllegal as error:
            if len(puts) == 1:
                self._refuse(pending, error, peer)
                return
            # One of them is too long for the store, and nothing was written: one by one then.
            for put, one in zip(puts, pending, strict=True):
                self._store_and_answer([put], [one], peer)
            return
        except StoreError as error:
            self._refuse(pending, error, peer)
            return
        self._count(results)
        self._answer(pending, results, peer)

    def _count(self, results: list[PutResult]) -> None:
        self._counters.count_put(len(results), _end_of(results) - results[0][1])

    def _answer(self, pending: list[Pending], results: list[PutResult], peer: Peer) -> None:
        """Answer now, or with SYNC_FLUSH when all of it is on disk."""
        answers = _frames(pending, results)
        if not self._is_flush_sync:
            peer.write(answers)
            return

        def flushed(is_flushed: bool) -> None:  # noqa: FBT001  The store calls it so.
            peer.write(answers if is_flushed else _frames(_late(pending), results))

        self._store.wait_flushed(_end_of(results), flushed)

    def _refuse(self, pending: list[Pending], error: BaseException, peer: Peer) -> None:
        self._counters.count_put_failed(len(pending))
        for opaque, start, _ in pending:
            if start is not None:
                command = Command(_SEND_V2, opaque=opaque)
                peer.answer(command, answer_to_error(error, command))


def _end_of(results: list[PutResult]) -> int:
    _, physical_offset, size = results[-1]
    return physical_offset + size


def _frames(pending: list[Pending], results: list[PutResult]) -> bytes:
    """The answers of these sends, one behind the other."""
    prefixes = _PREFIXES
    frames = []
    for (opaque, start, key), (queue_offset, physical_offset, _) in zip(
        pending, results, strict=True
    ):
        if start is not None:
            header = (
                f'{start}{physical_offset:016X}","queueOffset":"{queue_offset}",'
                f'"transactionId":"{key}{_MIDDLE}{opaque}{_END}'
            )
            size = len(header)
            frames.append(
                (prefixes[size] if size < _PREFIX_SIZE_MAX else _prefix(size)) + header
            )
    return "".join(frames).encode("latin-1")


def _as_one(
    one: Pending, results: list[PutResult], host: str
) -> tuple[list[Pending], list[PutResult]]:
    """A batch is answered as one send, whose message id is those of its records with commas."""
    opaque, start, key = one
    if start is None or len(results) == 1:
        return [one], results[-1:]
    ids = "".join(f"{physical_offset:016X},{host}" for _, physical_offset, _ in results[:-1])
    _, last_offset, size = results[-1]
    return [(opaque, start + ids, key)], [(results[0][0], last_offset, size)]


def _late(pending: list[Pending]) -> list[Pending]:
    """The same sends, to be answered with FLUSH_DISK_TIMEOUT."""
    return [
        (opaque, None if start is None else _LATE_START + start[_CODE_SIZE:], key)
        for opaque, start, key in pending
    ]


def _int32(text: str) -> int:
    number = int(text)
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError("beyond 32 bits")
    return number
