"""How far each level is delivered, in delayOffset.json: only what is on the device counts.

An offset that is saved is never asked for again, so it may be written only when the messages that were
put for it are on the device; else a power cut would take them, and nobody would deliver them again.

Next: cometmq.store.config_file
"""

from collections.abc import Callable
from concurrent.futures import Executor

from cometmq.broker.inner_puts import InnerPuts
from cometmq.broker.saving import Saver
from cometmq.codec.bodies.delay_offset import (
    DelayOffsets,
    decode_delay_offsets,
    encode_delay_offsets,
)
from cometmq.model.clock import Clock
from cometmq.model.data_version import DataVersion
from cometmq.store.config_file import ConfigFile


class Progress:
    """The table of delivered offsets and its file.

    Attributes:
        offsets: the next offset to deliver, by level.
    """

    def __init__(
        self, file: ConfigFile, *, inner: InnerPuts, clock: Clock, pool: Executor
    ) -> None:
        """The table is empty until `load`."""
        self.offsets: dict[int, int] = {}
        self._file = file
        self._inner = inner
        self._clock = clock
        self._safe = DelayOffsets(DataVersion(clock.now_ms()))
        self._saver = Saver(file, self._snapshot, pool)

    def load(self) -> None:
        """Read the file.

        Raises:
            CodecError: the file means nothing; the message names it.
        """
        table = self._file.load(decode_delay_offsets)
        if table is not None:
            self._safe = table
            self.offsets = dict(table.offsets)

    async def save(self) -> None:
        """Save the offsets as they are now, once all that was delivered is on the device."""
        if self.offsets == self._safe.offsets:
            self._saver.save_if_dirty()  # It failed before.
            return
        offsets = dict(self.offsets)
        if await self._inner.on_device():
            self._safe = DelayOffsets(self._safe.version.next(self._clock.now_ms()), offsets)
            self._saver.save_soon()

    def text(self) -> str:
        """The file's text, with the offsets as they are now."""
        return encode_delay_offsets(DelayOffsets(self._safe.version, self.offsets))

    async def close(self) -> None:
        """Save how far it came."""
        await self.save()
        await self._saver.close()

    def _snapshot(self) -> Callable[[], str]:
        table = self._safe
        return lambda: encode_delay_offsets(table)
