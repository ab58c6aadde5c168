"""Feeds the structures that features build from the log (`Builder`), each at its own position and speed.

A builder gets records that are visible and on the device, so that no power cut takes them back afterwards. They are
read from the log, a piece at a time, in a thread: sends never wait for a builder, and a slow one keeps nothing in
memory. Builders that lag or fail, stops, truncations and full disks: docs/design/0036, "Builders of features".
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from cometmq.kernel import WalkEnd
from cometmq.model.clock import Clock
from cometmq.model.errors import StoreDamaged
from cometmq.store.acceptance import Acceptance
from cometmq.store.batch import RawRecords
from cometmq.store.commitlog import CommitLog
from cometmq.store.derived import Derived, Hold, Step
from cometmq.store.log_file import LogFile
from cometmq.store.log_walk import read_piece
from cometmq.store.whole_records import Check

logger = logging.getLogger(__name__)

RETRY_SECONDS, RETRY_SECONDS_MAX = 1.0, 60.0


class Builder(Protocol):
    """A structure that a feature builds from the log; its methods run in a thread, one at a time, and may raise OSError.

    Attributes:
        name: Its name, for people.
        kept_max: Maximum number of bytes of the log, before its visible end, that are kept for the builder.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def kept_max(self) -> int: ...  # noqa: D102

    @property
    def position(self) -> int:
        """Physical offset of the first record the builder needs after a stop; its work on earlier ones is on the device."""

    def build(self, records: RawRecords) -> None:
        """Add the next records in log order; after an error, records are passed again from the same offset."""

    def go_back(self, end: int) -> None:
        """Remove what was built from records at and after the log's end `end`, after a truncation or at a start."""

    def skip(self, start: int, end: int) -> None:
        """Note that the log from `start` to `end` was deleted before it could be read; records from `end` on follow."""


class LogFollower(Derived):
    """Feeds one feature's builder, as a member of the list of everything built from the log.

    Attributes:
        next_offset: Physical offset of the next record that the builder gets.
        fault: Exception of the builder's last step; None if that succeeded, or before the first.
    """

    def __init__(
        self,
        builder: Builder,
        log: CommitLog,
        check: Check,
        *,
        clock: Clock,
        acceptance: Acceptance,
    ) -> None:
        end = log.positions.written
        self.next_offset = min(builder.position, end)
        self.fault: Exception | None = None
        self._builder = builder
        self._log = log
        self._positions = log.positions
        self._check = check
        self._clock = clock
        self._acceptance = acceptance
        # The log's end, if the builder must go back to it first.
        self._back_to = end if builder.position > end else None
        self._pause, self._retry_at = RETRY_SECONDS, 0.0

    # --- on the thread that owns the store

    def due(self) -> Step | None:
        """Return the builder's next step, which never raises, for a thread that may block; None if there is none now."""
        if self.is_step_out or self._acceptance.is_held:
            return None
        if self.fault is not None and self._clock.monotonic() < self._retry_at:
            return None
        work = self._work()
        if work is None:
            return None
        self.is_step_out = True
        return partial(self._take, work)

    def _work(self) -> Step | None:
        chain, start = self._log.chain, self.next_offset
        if self._back_to is not None:
            return partial(self._go_back, self._back_to)
        if start < chain.start:
            return partial(self._skip, start, chain.start)
        end = min(self._positions.dispatched, self._positions.flushed)
        file = chain.find(start)
        if file is None or start >= end:
            return None
        return partial(self._build, file, min(end, file.end))

    def hold(self) -> Hold:
        """Return the builder's name and the offset from which the log must be kept for it: at most `kept_max` bytes."""
        builder = self._builder
        bound = self._positions.dispatched - builder.kept_max
        return Hold(builder.name, max(builder.position, bound))

    def hide_from(self, offset: int) -> Iterator[Step]:
        """Yield a step, if needed, in which the builder removes what follows the log's new end; `due` retries a failure."""
        if self.next_offset > offset:
            self.next_offset = self._back_to = offset
            yield partial(self._take, partial(self._go_back, offset))

    # --- in a thread that may block

    def _take(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  A builder's fault is its own; the store goes on.
            self._failed(error)
        else:
            if self.fault is not None:
                logger.warning("%s goes on", self._builder.name)
            self.fault, self._pause = None, RETRY_SECONDS
        finally:
            self.is_step_out = False

    def _failed(self, error: Exception) -> None:
        if self.fault is None:
            is_known = isinstance(error, (OSError, StoreDamaged))
            logger.error(
                "%s cannot go on at %d of the log: %s",
                self._builder.name, self.next_offset, error, exc_info=None if is_known else error,
            )  # fmt: skip
        self.fault = error
        self._retry_at = self._clock.monotonic() + self._pause
        self._pause = min(2 * self._pause, RETRY_SECONDS_MAX)

    def _build(self, file: LogFile, end: int) -> None:
        position, batch, why, is_last = read_piece(self._check, file, self.next_offset, end)
        if batch is not None and batch.raw is not None:
            self._builder.build(batch.raw)
        self.next_offset = position
        if why is WalkEnd.BLANK:
            self.next_offset = file.end
        elif is_last:
            raise StoreDamaged(f"{file.path}: no valid record at {position} ({why.name})")

    def _go_back(self, end: int) -> None:
        self._builder.go_back(end)
        self._back_to = None

    def _skip(self, start: int, end: int) -> None:
        logger.error(
            "%s has missed the log from %d to %d: it was deleted, because at most %d bytes are kept for it",
            self._builder.name, start, end, self._builder.kept_max,
        )  # fmt: skip
        self._builder.skip(start, end)
        self.next_offset = end
