"""The `checkpoint` file: up to which point the store's files are known to be on disk.

| log time 8 | queue time 8 | index time 8 | master flushed offset 8 | confirm offset 8 | zeros |

The file has 4096 bytes. Times are store timestamps in ms; the index time is that of full files. A recovery that relies on
them starts at the newest log file that begins before them, or at the oldest file. Source: StoreCheckpoint of RocketMQ 5.3.3
(4.9 has only the three times); docs/format/checkpoint.md.
"""

from struct import Struct

from cometmq.model.errors import CodecError
from cometmq.model.frozen import dataclass

CHECKPOINT = Struct(">qqqqq")
CHECKPOINT_SIZE = 4096

# Safety margin of StoreCheckpoint.getMinTimestamp, for records with a time ahead of the clock.
SAFETY_MS = 3000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The times up to which log, queues and index are known to be on disk, and two offsets of replication.

    Attributes:
        log_timestamp: Store time of the newest record flushed to the commitlog, ms.
        queue_timestamp: Store time of the newest record whose queue entry is flushed, ms.
        index_timestamp: Store time of the last record in a full, flushed index file, ms.
        master_flushed_offset: Flushed offset of the master as last reported to a slave, bytes.
        confirm_offset: RocketMQ's confirm offset, bytes; CometMQ writes 0.
    """

    log_timestamp: int = 0
    queue_timestamp: int = 0
    index_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_offset: int = 0

    def recovery_timestamp(self, *, with_index: bool) -> int:
        """Return the store time in ms before which log, queues and, if `with_index`, the index count as being on disk.

        The time includes RocketMQ's margin of 3 s for log and queues, but none for the index (`messageIndexSafe`).
        """
        oldest = max(min(self.log_timestamp, self.queue_timestamp) - SAFETY_MS, 0)
        return min(oldest, self.index_timestamp) if with_index else oldest


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode the whole checkpoint file of 4096 bytes."""
    return CHECKPOINT.pack(
        checkpoint.log_timestamp,
        checkpoint.queue_timestamp,
        checkpoint.index_timestamp,
        checkpoint.master_flushed_offset,
        checkpoint.confirm_offset,
    ).ljust(CHECKPOINT_SIZE, b"\0")


def decode_checkpoint(content: bytes) -> Checkpoint:
    """Decode a checkpoint file; raises CodecError if it has fewer than 40 bytes."""
    if len(content) < CHECKPOINT.size:
        raise CodecError(
            f"the checkpoint has {len(content)} bytes, but its fields need {CHECKPOINT.size}"
        )
    return Checkpoint(*CHECKPOINT.unpack_from(content))
