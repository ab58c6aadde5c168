"""Stores the sends of clients, most of those put together with one write, and notifies their callers of the results.

A send has passed `admission`. Its caller gets the places of its records: a connection that encodes answers (send.requests),
or code in this process (embedded). With SYNC_FLUSH or replicas, most sends of one caller wait together, with one waiter.
Sends of the fast path (send.fast_path) come here only after they could not be stored.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from cometmq.broker.inner.puts import in_parts
from cometmq.broker.parts import Parts
from cometmq.broker.send.admission import Admission, AdmittedSend
from cometmq.broker.tables.saving import saved
from cometmq.codec.message_id import UniqueIds
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CodecError, RequestError, StoreError
from cometmq.steps.runner import StepsRun
from cometmq.steps.steps import Steps, confirmed
from cometmq.store.appender import Put, PutResult
from cometmq.store.positions import Durability


class SendCaller(Protocol):
    """The receiver of the results of sends; each send is the object that was given to `Sends.put`."""

    def stored(
        self,
        sends: list[Any],
        results: list[PutResult],
        durability: Durability,
        *,
        has_waited: bool,
    ) -> None:
        """Handle sends that are stored.

        Args:
            sends: The sends, in the order in which they were put.
            results: The place of each send's record; for a single send that is a batch, those of all its records, or one that
                stands for them (a large batch).
            durability: OK if they are confirmed, or need not be (WAIT=false), else why they are not.
            has_waited: Whether the sends have waited for confirmation.
        """
        ...

    def refused(self, sends: list[Any], error: BaseException) -> None:
        """Handle sends that are not stored, or whose new topic could not be saved."""
        ...


class Sends:
    """Stores checked sends, most of them with one write, and notifies their callers.

    Attributes:
        admission: Checks sends before they are put.
        host: The broker's host in the format of message ids.
        written: Dispatches what is stored to consumers, and notifies the flusher; to be called after the answers.
    """

    def __init__(self, parts: Parts, unique_ids: UniqueIds) -> None:
        """`unique_ids` creates ids for messages without one."""
        self.admission = Admission(parts, unique_ids)
        self.host = parts.store.store_host.hex().upper()
        self._store = parts.store
        self._positions = parts.store.positions
        self._counters = parts.counters
        self.written = parts.inner.written
        self._world = parts.world
        self._topics_known = parts.topics_known
        self._begin()

    def _begin(self) -> None:
        self._puts: list[Put] = []
        self._sends: list[Any] = []
        self._ends: list[tuple[SendCaller, int]] = []
        self._caller: SendCaller | None = None

    def put(self, admitted: AdmittedSend, send: Any, caller: SendCaller) -> None:
        """Queue a send for `store`, or, if it must be stored apart, store the queued ones and then this one now.

        Stored apart are batches, sends with WAIT=false, and those whose topic is not on disk yet.
        """
        if admitted.is_batch or not admitted.is_flush_awaited or admitted.saving is not None:
            self.store()
            self._store_apart(admitted, send, caller)
            return
        if caller is not self._caller:
            self._end_caller()
            self._caller = caller
        self._puts.append(admitted.puts[0])
        self._sends.append(send)

    def store(self) -> None:
        """Store all queued sends; notify their callers, now or once confirmation is decided. `written` must follow."""
        if self._puts:
            self._end_caller()
            puts, sends, ends = self._puts, self._sends, self._ends
            self._begin()
            self._store_all(puts, sends, ends)

    def _end_caller(self) -> None:
        if self._caller is not None:
            self._ends.append((self._caller, len(self._puts)))

    # --- many sends

    def _store_all(
        self, puts: list[Put], sends: list[Any], ends: list[tuple[SendCaller, int]]
    ) -> None:
        if self._positions.refusal is not None:
            error = too_few_replicas(self._positions.refusal)
            for caller, first, last in _of_callers(ends, 0, len(puts)):
                self.refuse(sends[first:last], error, caller)
            return
        start = 0
        began = self._counters.now()
        for part, outcome in in_parts(self._store.put_many, puts):
            callers = _of_callers(ends, start, start + len(part))
            if isinstance(outcome, list):
                self._answer(callers, sends, part, outcome, start, began)
            else:
                for caller, first, last in callers:
                    self.refuse(sends[first:last], outcome, caller)
            start += len(part)

    def _answer(
        self,
        callers: Iterator[tuple[SendCaller, int, int]],
        sends: list[Any],
        puts: Sequence[Put],
        results: list[PutResult],
        start: int,
        began: float,
    ) -> None:
        """Notify each caller and count the messages, now or once it is known whether they are confirmed.

        `start` is the index of the first result.
        """
        end, is_confirmed = start + len(puts), _end_of(results) <= self._positions.confirmed
        for caller, first, last in callers:
            some, places = sends, results
            if last - first < len(sends):
                some, places = sends[first:last], results[first - start : last - start]
            if is_confirmed:
                caller.stored(some, places, Durability.OK, has_waited=False)
            else:
                # As on the fast path, the last waiter also counts: a lone producer must be a single waiter.
                self._wait(
                    caller, some, places, (puts, results, began) if last == end else None
                )
        if is_confirmed:
            self._counters.count_puts(puts, results, began, self._counters.sends)

    def _wait(
        self,
        caller: SendCaller,
        sends: list[Any],
        results: list[PutResult],
        counted: tuple[Sequence[Put], list[PutResult], float] | None = None,
    ) -> None:
        """Notify the caller once it is known whether all of these messages are confirmed, with one waiter for all."""

        def confirmed(durability: Durability) -> None:
            caller.stored(sends, results, durability, has_waited=True)
            if counted is not None:
                self._counters.count_puts(*counted, self._counters.sends)

        self._store.wait_confirmed(_end_of(results), confirmed)

    def refuse(self, sends: list[Any], error: BaseException, caller: SendCaller) -> None:
        """Count sends as failed, and notify their caller of the error."""
        self._counters.put_failed += len(sends)
        caller.refused(sends, error)

    # --- a send that is stored apart: a batch, a message that awaits no flush, or a send to a new topic

    def _store_apart(self, admitted: AdmittedSend, send: Any, caller: SendCaller) -> None:
        try:
            results = self._put_apart(admitted)
        except (StoreError, RequestError, CodecError) as error:
            self.refuse([send], error, caller)
            return
        self.finish(admitted, send, results, caller)

    def _put_apart(self, admitted: AdmittedSend) -> list[PutResult]:
        if self._positions.refusal is not None and admitted.is_flush_awaited:
            raise too_few_replicas(self._positions.refusal)
        began = self._counters.now()
        results = self._store.put_many(admitted.puts, is_together=admitted.is_batch)
        self._counters.count_puts(admitted.puts, results, began, self._counters.sends)
        return results

    def put_piece(self, admitted: AdmittedSend) -> list[PutResult]:
        """Store and dispatch a piece of a large batch; return its places. Call `finish` after the last piece.

        Raises:
            RequestError, StoreError: It was not stored.
        """
        try:
            results = self._put_apart(admitted)
        except StoreError:
            self._counters.put_failed += 1
            raise
        self.written()
        return results

    def finish(
        self, admitted: AdmittedSend, send: Any, results: list[PutResult], caller: SendCaller
    ) -> None:
        """Notify the caller of a send stored apart, after its new topic is kept and, if wanted, confirmation, or their failure."""
        end = _end_of(results)
        if admitted.saving is not None:

            def kept(durability: Durability | None, error: BaseException | None) -> None:
                if durability is None:
                    assert error is not None, "steps end with a result or an error"
                    self.refuse([send], error, caller)
                else:
                    caller.stored([send], results, durability, has_waited=True)

            StepsRun(self._world, self._topic_kept(admitted, end), kept).go_on()
        elif admitted.is_flush_awaited and end > self._positions.confirmed:
            self._wait(caller, [send], results)
        else:
            caller.stored([send], results, Durability.OK, has_waited=False)

    def _topic_kept(self, admitted: AdmittedSend, end: int) -> Steps[Durability]:
        """Wait until a new topic is on disk, its message is confirmed, and nameservers know it; return the `Durability`.

        A producer with an answer must find the topic after a power failure, and a consumer that starts now must get its route.
        Raises RequestError if the topic cannot be saved.
        """
        yield from saved(admitted.saving)
        durability = Durability.OK
        if admitted.is_flush_awaited and end > self._positions.confirmed:
            durability = yield from confirmed(end)
        yield from self._topics_known()
        return durability


def too_few_replicas(reason: str) -> RequestError:
    """Return the error for a send with too few in-sync replicas: response code SYSTEM_ERROR with this reason.

    RocketMQ 5.3.3 answers its put status IN_SYNC_REPLICAS_NOT_ENOUGH with the same code.
    """
    return RequestError(ResponseCode.SYSTEM_ERROR, reason)


def _of_callers(
    ends: list[tuple[SendCaller, int]], start: int, stop: int
) -> Iterator[tuple[SendCaller, int, int]]:
    """Yield the callers of a range of sends, each with the range of its sends: index of the first, and after the last."""
    first = start
    for caller, end in ends:
        last = min(end, stop)
        if first < last:
            yield caller, first, last
            first = last


def _end_of(results: list[PutResult]) -> int:
    _, physical_offset, size = results[-1]
    return physical_offset + size
