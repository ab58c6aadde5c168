"""Copies a master's tables to its slave: topics, groups, offsets, modes, progress of delays and timer.

The slave requests the tables about every 3 s (Java: 10 s in 4.9, 60 s in 5.x) and when its master notifies it. The progress
of deliveries, and offsets of the broker's own groups, are applied only when the log here has reached the end that the
master's log had then; without this wait a promoted slave would skip deliveries that it does not have. Larger
offsets that groups committed here are sent to the master, one UPDATE_CONSUMER_OFFSET each and at most 1,000 per round,
until it has reached them.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from cometmq.broker.parts import Parts
from cometmq.broker.replication.copy_mark import log_end_of
from cometmq.broker.tables.client_peer import PeerAnswer
from cometmq.broker.tables.master_table import MasterTable
from cometmq.broker.tables.offsets import Offsets
from cometmq.broker.tables.table_copies import SLAVE_ID
from cometmq.codec.bodies.consumer_offset import TOPIC_GROUP_SEPARATOR
from cometmq.codec.bodies.kv import decode_kv_table
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.offset import UpdateConsumerOffset
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode, ResponseCode, request_name
from cometmq.model.errors import BrokerRefused, CodecError, CometError
from cometmq.model.numbers import whole_number
from cometmq.model.text import as_given, error_text, plural
from cometmq.steps.steps import Done, Steps, called_back, elsewhere

_log = logging.getLogger(__name__)

PERIOD_SECONDS = 3.0
# Interval after the start until a nameserver has answered; a missing master is not reported before UNNAMED_SECONDS.
FIRST_LOOK_SECONDS = 0.1
UNNAMED_SECONDS = 3.0
# Largest number of offsets sent to the master per round.
TOLD_MAX = 1_000


# Sends a request to the master at an address, with a code and fields; `Done` is called later with the answer, whatever its
# code, or an error.
AskMaster = Callable[[str, int, Mapping[str, str], Done], None]


class _Late(NamedTuple):
    """Tables that wait until the log reaches an offset."""

    log_end: int
    read: list[tuple[MasterTable, Any]]


class KnownLog(NamedTuple):
    """A slave's knowledge of its log, for the tables of its master.

    Attributes:
        end: Returns the physical offset up to which it has the master's log.
        is_joined: Returns whether it is known to be the master's.
    """

    end: Callable[[], int]
    is_joined: Callable[[], bool]


def _call(
    ask: AskMaster, master: str, code: int, fields: Mapping[str, str] | None = None
) -> Steps[PeerAnswer]:
    answer: PeerAnswer = yield from called_back(
        lambda done: ask(master, code, fields or {}, done)
    )
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefused(answer.code, answer.remark or "", master)
    return answer


def tell_offsets(offsets: Offsets, master: str, ask: AskMaster) -> Steps[None]:
    """Send the master at an address the offsets that groups committed at this slave, at most 1,000.

    Offsets that it refuses are logged.

    Raises:
        NetError: The master cannot be asked.
    """
    told = 0
    for key, queues in offsets.grown().items():
        topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
        for queue_id, offset in queues.items():
            if told == TOLD_MAX:
                return
            told += 1
            request = UpdateConsumerOffset(group, topic, queue_id, offset)
            try:
                yield from _call(
                    ask, master, RequestCode.UPDATE_CONSUMER_OFFSET, encode_fields(request)
                )
            except BrokerRefused as refused:
                _log.warning(
                    "the master refused an offset that was committed here: %s", refused
                )
    if told:
        _log.info(
            "sent to the master %s: %d %s committed here",
            master,
            told,
            plural(told, "offset"),
        )


class MasterMetadata:
    """The background job that copies a master's tables.

    Attributes:
        copied_ms: When a round last succeeded, epoch ms; 0 if never.
        error: Why the last round failed; None if it succeeded, or before the first failure.
    """

    def __init__(
        self,
        tables: Sequence[MasterTable],
        *,
        master: Callable[[], str | None],
        ask: AskMaster,
        offsets: Offsets,
        log: KnownLog,
        clock: Clock,
    ) -> None:
        """Copy `tables` from `master()` (None: not known), those that need the log last; send it consumer `offsets`.

        While the `log` here is not known to be the master's, no topics, groups or offsets are deleted here.
        """
        self.copied_ms = 0
        self.error: str | None = None
        self._tables = tables
        self._master = master
        self._ask = ask
        self._offsets = offsets
        self._log = log
        self._clock = clock
        self._taken: dict[int, tuple[bytes, bool, object]] = {}
        self._late: _Late | None = None
        self._begun_at: float | None = None
        self._refused: set[int] = set()

    def step(self) -> Steps[float]:
        """Copy the tables from the master once, if one is known; return the seconds until the next round.

        A failure is noted in `error`, and the first in a row is logged. That no master is known counts as a failure,
        but before the first success only after 3 s.
        """
        master = self._master()
        if master is None:
            return self._unnamed()
        try:
            yield from self._copy(master)
        except (CometError, OSError) as error:
            self._failed(f"{master}: {error_text(error)}")
        else:
            if self.error is not None or not self.copied_ms:
                _log.info("tables are copied from the master %s", master)
            self.error, self.copied_ms = None, self._clock.now_ms()
        return PERIOD_SECONDS

    def _unnamed(self) -> float:
        now = self._clock.monotonic()
        if self._begun_at is None:
            self._begun_at = now
        if not self.copied_ms and now - self._begun_at < UNNAMED_SECONDS:
            return FIRST_LOOK_SECONDS
        self._failed("no nameserver has a master with this broker's brokerName")
        return PERIOD_SECONDS

    def _failed(self, why: str) -> None:
        if self.error is None:
            _log.warning(
                "tables are not copied from the master: %s; next try in %g s",
                why,
                PERIOD_SECONDS,
            )
        self.error = why

    def _copy(self, master: str) -> Steps[None]:
        for table in self._tables:
            if not table.needs_log:
                yield from self._copy_table(master, table)
        yield from tell_offsets(self._offsets, master, self._ask)
        if self._late is None:
            yield from self._read_late(master)
        yield from self._take_late()

    # --- requests

    def _answer(self, master: str, code: int) -> Steps[PeerAnswer | None]:
        """Return the master's answer with a table; None if it is empty, SYSTEM_ERROR or REQUEST_CODE_NOT_SUPPORTED."""
        try:
            answer = yield from _call(self._ask, master, code)
        except BrokerRefused as refused:
            if refused.code not in (
                ResponseCode.SYSTEM_ERROR,
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            ):
                raise
            if code not in self._refused:
                self._refused.add(code)
                _log.info("the master does not answer %s: %s", request_name(code), refused)
            return None
        self._refused.discard(code)
        return answer if answer.body else None

    # --- tables

    def _copy_table(self, master: str, table: MasterTable) -> Steps[None]:
        # The master already had everything up to here when it answered, so the table covers deletions up to this offset.
        end = self._log.end()
        answer = yield from self._answer(master, table.code)
        if answer is None:
            return
        body = answer.body
        end = log_end_of(answer.fields, end)
        digest = yield from elsewhere(lambda: blake2b(body, digest_size=16).digest())
        is_whole = self._log.is_joined()
        if self._taken.get(table.code) != (digest, is_whole, table.state()):
            value = yield from self._read(table, body)
            yield from table.take(value, end if is_whole else None)
            self._taken[table.code] = digest, is_whole, table.state()
        yield from table.known(end if is_whole else None)

    def _read(self, table: MasterTable, body: bytes) -> Steps[Any]:
        try:
            return (yield from elsewhere(partial(table.decode, body)))
        except CodecError as error:
            raise CodecError(
                f"its answer to {request_name(table.code)} is invalid: {error}"
            ) from None

    def _read_late(self, master: str) -> Steps[None]:
        read = []
        for table in self._tables:
            if table.needs_log:
                answer = yield from self._answer(master, table.code)
                if answer is not None:
                    read.append((table, (yield from self._read(table, answer.body))))
        if not read:
            return
        # Requested last, so everything in the tables is before this end.
        numbers = yield from _call(self._ask, master, RequestCode.GET_BROKER_RUNTIME_INFO)
        end = decode_kv_table(numbers.body).get("commitLogMaxOffset", "")
        log_end = whole_number(end)
        if log_end is None:
            raise CodecError(
                f"its answer to GET_BROKER_RUNTIME_INFO is invalid: commitLogMaxOffset is {as_given(end, 40)}"
            )
        self._late = _Late(log_end, read)

    def _take_late(self) -> Steps[None]:
        late = self._late
        if late is None or self._log.end() < late.log_end or not self._log.is_joined():
            return
        self._late = None
        for table, value in late.read:
            yield from table.take(value, late.log_end)


def metadata_of(
    parts: Parts,
    tables: Sequence[MasterTable],
    *,
    master: Callable[[], str | None],
    ask: AskMaster,
    log: KnownLog,
) -> MasterMetadata:
    """Create the job that copies these tables of the master; see `MasterMetadata`.

    From now on groups are only copied, not created here, and new or larger offsets committed here are kept for the master.
    """
    parts.offsets.follow()
    parts.groups.is_copy = True
    name = {SLAVE_ID: str(parts.settings.broker_id)}

    return MasterMetadata(
        tables,
        master=master,
        ask=lambda address, code, fields, done: ask(address, code, {**fields, **name}, done),
        offsets=parts.offsets,
        log=log,
        clock=parts.clock,
    )
