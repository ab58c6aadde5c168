"""The end of a store's archived log: `archived.json`, which an archive job writes.

    {"archivedTo": 1073741824, "place": "file:///archive/broker-a", "v": 1}

Everything before the physical offset `archivedTo` is in the archive. With archiveGuard=true the
cleaner removes no log file that ends behind it; a file that cannot be read guards everything.
"""

from typing import Any

from cometmq.codec.fastjson import dumps, loads
from cometmq.model.errors import CodecError
from cometmq.store.disk import Disk, read_file, write_file

ARCHIVED_FILE = "archived.json"
_VERSION = 1


def archived_to(disk: Disk, root: str) -> int:
    """Physical offset up to which the log is archived; 0 where nobody has said so.

    Raises:
        OSError: the file is there and cannot be read.
    """
    try:
        found = loads(read_file(disk, f"{root}/{ARCHIVED_FILE}"))
    except (FileNotFoundError, CodecError):
        return 0
    offset = found.get("archivedTo") if isinstance(found, dict) else None
    return offset if isinstance(offset, int) else 0


def note_archived(disk: Disk, root: str, offset: int, place: str) -> int:
    """Everything before a physical offset is archived at a place; the mark never goes back.

    Returns:
        What the mark says now.

    Raises:
        OSError: it could not be written; what it said before stands.
    """
    offset = max(offset, archived_to(disk, root))
    mark: dict[str, Any] = {"archivedTo": offset, "place": place, "v": _VERSION}
    write_file(disk, f"{root}/{ARCHIVED_FILE}", dumps(mark))
    return offset
