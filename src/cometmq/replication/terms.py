"""Parameters of a replication connection: times, sizes, the secret, and the bounds of a log."""

from typing import NamedTuple

from cometmq.model.frozen import dataclass


class LogBounds(NamedTuple):
    """The bounds of a log, as physical offsets.

    Attributes:
        oldest: Offset of its first byte.
        end: Offset at which it ends.
        sendable: Offset up to which slaves may have it.
        flushed: Offset up to which it is on the device.
        file_size: Size of its files in bytes.
    """

    oldest: int
    end: int
    sendable: int
    flushed: int
    file_size: int


class SlaveRates(NamedTuple):
    """Limits for the bytes of the log that each slave is sent per second.

    Attributes:
        most: Maximum rate (maxHaTransferByteInSecond); None for no limit.
        catch_up: Rate while a slave is far behind a growing log and no send waits for it (haCatchUpByteInSecond); if
            that is more, the log's mean growth plus a quarter of this rate; 0 for no limit.
    """

    most: int | None = None
    catch_up: int = 0


@dataclass(frozen=True, slots=True)
class LinkTerms:
    """Settings of a replication connection.

    Attributes:
        heartbeat_seconds: Time without sending after which a heartbeat is sent (haSendHeartbeatInterval).
        silence_seconds: Time without receiving after which the connection is closed (haHousekeepingInterval).
        frame_size: Maximum bytes of the log per frame (haTransferBatchSize).
        secret: Secret that both ends must prove to know (haSecretFile), which Java cannot; None if there is none.
    """

    heartbeat_seconds: float = 5.0
    silence_seconds: float = 20.0
    frame_size: int = 512 << 10
    secret: bytes | None = None
