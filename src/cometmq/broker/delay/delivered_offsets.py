"""The delivered offset of each delay level, saved in delayOffset.json.

After a restart, messages before a saved offset are not delivered again. A master therefore saves an offset only
after the delivered messages are flushed; a power failure could lose them before that. In a group that elects its
leader, they must also be committed.
"""

from collections.abc import Callable

from cometmq.codec.bodies.delay_offset import (
    DelayOffsets,
    decode_delay_offsets,
    encode_delay_offsets,
)
from cometmq.model.clock import Clock
from cometmq.model.data_version import DataVersion
from cometmq.steps.steps import Steps, confirmed, elsewhere, on_device
from cometmq.store.config_file import ConfigFile
from cometmq.store.positions import Durability


class DeliveredOffsets:
    """The table of delivered offsets and its file; `offsets` has the next queue offset to deliver, by delay level."""

    def __init__(
        self, file: ConfigFile, *, clock: Clock, log_end: Callable[[], int] | None = None
    ) -> None:
        """`log_end` returns the end of the log of a member of a group with elections; None without a group."""
        self.offsets: dict[int, int] = {}
        self._file = file
        self._clock = clock
        self._log_end = log_end
        self._saved = DelayOffsets(DataVersion(clock.now_ms()))

    def load(self) -> None:
        """Read delayOffset.json or its .bak, if any; CodecError if neither can be decoded, OSError if the disk fails."""
        table = self._file.load(decode_delay_offsets)
        if table is not None:
            self._saved = table
            self.offsets = dict(table.offsets)

    def save(self) -> Steps[bool]:
        """Save the current offsets after all deliveries are flushed, and committed in a group with elections.

        Return whether the current offsets are saved; False also if deliveries could not be flushed or committed.

        Raises:
            OSError: The file could not be written; nothing counts as saved.
        """
        if self.offsets == self._saved.offsets:
            return True
        offsets = dict(self.offsets)
        end = None if self._log_end is None else self._log_end()
        if not (yield from on_device()):
            return False  # The next call tries again.
        if end is not None and (yield from confirmed(end)) is not Durability.OK:
            return False  # The deliveries may be truncated.
        table = DelayOffsets(self._saved.version.next(self._clock.now_ms()), offsets)
        yield from elsewhere(lambda: self._file.save(encode_delay_offsets(table)))
        self._saved = table
        return self.offsets == offsets

    def take(self, table: DelayOffsets) -> Steps[None]:
        """Save the offsets of this slave's master, whose deliveries are in the log here; no offset moves back.

        Raises:
            OSError: The file could not be written; nothing counts as saved.
        """
        levels = {*self.offsets, *table.offsets}
        offsets = {
            level: max(self.offsets.get(level, 0), table.offsets.get(level, 0))
            for level in sorted(levels)
        }
        if offsets == self._saved.offsets:
            return
        taken = DelayOffsets(table.version, offsets)
        yield from elsewhere(lambda: self._file.save(encode_delay_offsets(taken)))
        self._saved, self.offsets = taken, dict(offsets)

    def text(self) -> str:
        """Return the text of delayOffset.json (JSON) with the current offsets."""
        return encode_delay_offsets(DelayOffsets(self._saved.version, self.offsets))
