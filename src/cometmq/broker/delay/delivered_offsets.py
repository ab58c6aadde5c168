"""The delivered offset of each delay level, saved in delayOffset.json.

After a restart, messages before a saved offset are not delivered again. A master therefore saves an offset only
after the delivered messages are flushed; a power failure could lose them before that. In a group that elects its
leader, the offsets are also written to the log, after the deliveries.
"""

from collections.abc import Mapping

from cometmq.codec.bodies.delay_offset import (
    DelayOffsets,
    decode_delay_offsets,
    encode_delay_offsets,
)
from cometmq.model.clock import Clock
from cometmq.model.data_version import DataVersion
from cometmq.steps.steps import Steps, elsewhere, on_device
from cometmq.store.config_file import ConfigFile


class DeliveredOffsets:
    """The table of delivered offsets and its file; `offsets` has the next queue offset to deliver, by delay level."""

    def __init__(self, file: ConfigFile, *, clock: Clock) -> None:
        self.offsets: dict[int, int] = {}
        self._file = file
        self._clock = clock
        self._saved = DelayOffsets(DataVersion(clock.now_ms()))

    def load(self) -> None:
        """Read delayOffset.json or its .bak, if any; CodecError if neither can be decoded, OSError if the disk fails."""
        table = self._file.load(decode_delay_offsets)
        if table is not None:
            self._saved = table
            self.offsets = dict(table.offsets)

    def save(self) -> Steps[bool]:
        """Save the current offsets after all deliveries are flushed.

        Return whether the current offsets are saved; False also if deliveries could not be flushed.

        Raises:
            OSError: The file could not be written; nothing counts as saved.
        """
        if self.offsets == self._saved.offsets:
            return True
        offsets = dict(self.offsets)
        if not (yield from on_device()):
            return False  # The next call tries again.
        yield from self._write(self._next(offsets))
        return self.offsets == offsets

    def _next(self, offsets: Mapping[int, int]) -> DelayOffsets:
        return DelayOffsets(self._saved.version.next(self._clock.now_ms()), offsets)

    def _write(self, table: DelayOffsets) -> Steps[None]:
        yield from elsewhere(lambda: self._file.save(encode_delay_offsets(table)))
        self._saved = table

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
        yield from self._write(DelayOffsets(table.version, offsets))
        self.offsets = offsets

    def put(self, offsets: Mapping[int, int]) -> Steps[None]:
        """Save exactly these offsets, which the leader of the broker group has. Raises the errors of `take`."""
        if offsets != self.offsets:
            yield from self._write(self._next(offsets))
            self.offsets = dict(offsets)

    def text(self) -> str:
        """Return the text of delayOffset.json (JSON) with the current offsets."""
        return encode_delay_offsets(DelayOffsets(self._saved.version, self.offsets))
