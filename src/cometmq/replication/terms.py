"""The terms of a replication connection: times, sizes, the secret, and where a log begins and ends."""

from typing import NamedTuple

from cometmq.model.frozen import dataclass


class LogBounds(NamedTuple):
    """A log, in physical offsets.

    Attributes:
        oldest: its first byte.
        end: behind its last record.
        sendable: up to here copies may have it.
        flushed: up to here it is on the device.
        file_size: bytes of its files.
    """

    oldest: int
    end: int
    sendable: int
    flushed: int
    file_size: int


class SlaveRates(NamedTuple):
    """Bounds for the bytes of the log that each slave is sent in a second.

    Attributes:
        most: so many bytes at most (maxHaTransferByteInSecond); None: as many as it takes.
        catch_up: so many where it is far behind a log that grows, and nobody waits for it (haCatchUpByteInSecond), or
            a quarter of it more than it grows by; 0: as many as it takes.
    """

    most: int | None = None
    catch_up: int = 0


@dataclass(frozen=True, slots=True)
class LinkTerms:
    """Settings of a connection.

    Attributes:
        heartbeat_seconds: who has said nothing for so long says something (haSendHeartbeatInterval).
        silence_seconds: who has heard nothing for so long closes (haHousekeepingInterval).
        frame_size: most bytes of the log in a frame (haTransferBatchSize).
        secret: what own members prove to know (haSecretFile); None: nothing.
    """

    heartbeat_seconds: float = 5.0
    silence_seconds: float = 20.0
    frame_size: int = 512 << 10
    secret: bytes | None = None
