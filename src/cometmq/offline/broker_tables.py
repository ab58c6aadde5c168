"""The files in `config` with which a broker goes on: its tables (JSON), and how far its timer has delivered."""

from cometmq.codec.timer_files import TimerCheck, decode_check, encode_check
from cometmq.model.errors import CodecError, StoreDamaged

CONFIG = "config"
TIMER_CHECK_FILE = "timercheck"


def is_table(name: str) -> bool:
    """Return whether another store gets this file of `config`; not the backups, for example."""
    return name.endswith(".json") or name == TIMER_CHECK_FILE


def for_new_store(name: str, content: bytes, place: str) -> bytes:
    """Return the content of such a file for a store without the timer's wheel and log.

    The broker builds these again from the timer's topic. As after a promotion, another broker has delivered what was due
    before `read_ms`. Raises StoreDamaged, which names the file as `place`, if the timer's progress is damaged.
    """
    if name != TIMER_CHECK_FILE:
        return content
    try:
        check = decode_check(content)
    except CodecError as error:
        raise StoreDamaged(f"{place}: {error}") from error
    known = max(check.queue_offset, check.master_queue_offset)
    return encode_check(TimerCheck(read_ms=check.read_ms, master_queue_offset=known))
