"""The files in `config` that a broker needs to continue: its tables (JSON), and how far its timer has delivered."""

from cometmq.codec.timer_files import TimerCheck, decode_check, encode_check
from cometmq.model.errors import CodecError, StoreDamaged

CONFIG = "config"
TIMER_CHECK_FILE = "timercheck"


def is_table(name: str) -> bool:
    """Return whether a file of `config` is copied to archives and new stores: JSON and `timercheck`, not backups."""
    return name.endswith(".json") or name == TIMER_CHECK_FILE


def for_new_store(name: str, content: bytes, place: str) -> bytes:
    """Return a file of `config` for a store without the timer's wheel and log; only `timercheck` is changed.

    The broker rebuilds wheel and log from the timer's topic. As after a promotion, another broker has delivered what
    was due before `read_ms`. Raises StoreDamaged, which names the file as `place`, if `timercheck` is damaged.
    """
    if name != TIMER_CHECK_FILE:
        return content
    try:
        check = decode_check(content)
    except CodecError as error:
        raise StoreDamaged(f"{place}: {error}") from error
    known = max(check.queue_offset, check.master_queue_offset)
    return encode_check(TimerCheck(read_ms=check.read_ms, master_queue_offset=known))
