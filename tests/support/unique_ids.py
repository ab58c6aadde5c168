"""Reads the unique ids of messages; the product only makes them."""

from datetime import datetime, timedelta
from struct import Struct

UNIQUE_TAIL = Struct(">HIIH")  # process, loader, time, counter: what follows the ip


def unique_id_time(unique_id: str, *, now_ms: int) -> int:
    """Return when a unique id was made on this machine, ms since 1970, if it is less than a month old.

    As MessageClientIDSetter.getNearlyTimeFromID does: a time in the future belongs to the last month.
    """
    since = UNIQUE_TAIL.unpack(bytes.fromhex(unique_id)[-UNIQUE_TAIL.size :])[2]
    now = datetime.fromtimestamp(now_ms / 1000).astimezone()
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if month.timestamp() * 1000 + since >= now_ms:
        month = (month - timedelta(days=1)).replace(day=1)
    return int(month.timestamp() * 1000) + int(since)
