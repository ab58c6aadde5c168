"""Marks of a store's archives, one for each place (`archived.json`), and the check that a place holds what its mark says.

    {"archivedTo": 1073741824, "place": "file:///archive/broker-a",
     "places": {"file:///archive/broker-a": {"archivedTo": 1073741824, "proof": [1073737728, 1073741824, "9f86…"]}}, "v": 1}

An archive of a log is a folder:

    PLACE/_archive/archive.json     the ranges that it holds, and the proof of the log that they are of
    PLACE/_archive/splits/LO-HI.json     the files of each range, and their sizes

A mark in the store is a claim: the place may have been emptied, moved or used for another log since, and the log may
have been cut and written anew. So nothing is concluded from a mark alone. `held_ranges` looks which ranges a place still
holds, and a proof, the hash of the last bytes before the archive's end, shows that the log is the one that was archived.

With archiveGuard=true the cleaner removes only log files that `guarded_to` finds in a place that still holds them.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cometmq.codec.fastjson import dumps, loads
from cometmq.model.errors import CodecError
from cometmq.store.disk import Disk, file_size, read_file, write_file

logger = logging.getLogger(__name__)

ARCHIVED_FILE = "archived.json"
ARCHIVE_FILE = "_archive/archive.json"
SPLITS = "_archive/splits"
_VERSION = 1
_LOCAL = "file://"

Range = tuple[int, int]
ReadLog = Callable[[int, int], bytes | None]
"""(physical offset, size) -> bytes of the log; None if it does not have them."""


class LogProof(NamedTuple):
    """The hash of some bytes of a log, by which the log is known again.

    Attributes:
        lo: physical offset of the first byte.
        hi: physical offset behind the last.
        digest: SHA-256 of the bytes, hexadecimal.
    """

    lo: int
    hi: int
    digest: str

    def is_of(self, content: bytes) -> bool:
        """Return whether these are the bytes."""
        return digest_of(content) == self.digest


class ArchiveMark(NamedTuple):
    """The end of a log's archive at one place.

    Attributes:
        archived_to: every record before this physical offset, from the first that the log had, is in the archive.
        proof: of the log that was archived; None in a mark of an older version.
    """

    archived_to: int
    proof: LogProof | None = None


def digest_of(content: bytes) -> str:
    """Return the hash that a proof keeps."""
    return hashlib.sha256(content).hexdigest()


def archive_marks(disk: Disk, root: str) -> dict[str, ArchiveMark]:
    """Return the marks of a store by place; none if the file is missing or damaged.

    Raises:
        OSError: the file is there and cannot be read.
    """
    try:
        found = loads(read_file(disk, f"{root}/{ARCHIVED_FILE}"))
        places = found.get("places", {found["place"]: found})
        return {
            place: ArchiveMark(int(mark["archivedTo"]), proof_of(mark.get("proof")))
            for place, mark in places.items()
        }
    except (FileNotFoundError, CodecError, AttributeError, KeyError, TypeError, ValueError):
        return {}


def proof_of(found: Any) -> LogProof | None:
    """Return a proof from its JSON form; None if there is none.

    Raises:
        TypeError: it is none.
        ValueError: it is none.
    """
    return LogProof(int(found[0]), int(found[1]), str(found[2])) if found else None


def archived_to(disk: Disk, root: str) -> int:
    """Return the largest physical offset that a mark of the store names; 0 without one.

    Raises:
        OSError: the file is there and cannot be read.
    """
    return max((mark.archived_to for mark in archive_marks(disk, root).values()), default=0)


def note_archived(
    disk: Disk, root: str, offset: int, place: str, proof: LogProof | None = None
) -> int:
    """Note that everything before a physical offset is archived at a place.

    Returns:
        What the mark of the place says now.

    Raises:
        OSError: it could not be written; what it said before stands.
    """
    marks = archive_marks(disk, root)
    marks[place] = ArchiveMark(offset, proof)
    # Versions that know one mark only read these two.
    furthest = max(marks, key=lambda name: marks[name].archived_to)
    content: dict[str, Any] = {
        "archivedTo": marks[furthest].archived_to,
        "place": furthest,
        "places": {
            name: {"archivedTo": mark.archived_to, "proof": mark.proof and list(mark.proof)}
            for name, mark in marks.items()
        },
        "v": _VERSION,
    }
    write_file(disk, f"{root}/{ARCHIVED_FILE}", dumps(content))
    return offset


# --- what a place holds


class HeldSplit(NamedTuple):
    """The files of an archived range.

    Attributes:
        lo: physical offset at which it begins.
        hi: physical offset at which it ends.
        is_whole: whether all of its files are there, with the sizes that they had.
        name: of the file that says it.
    """

    lo: int
    hi: int
    is_whole: bool
    name: str


def archive_state(disk: Disk, folder: str) -> tuple[list[Range], list[LogProof]]:
    """Return the ranges that an archive of a whole log claims, and its last proofs, the newest last; no range if it is none.

    Raises:
        OSError: a file is there and cannot be read.
    """
    try:
        found = loads(read_file(disk, f"{folder}/{ARCHIVE_FILE}"))
        if found.get("topics"):
            return [], []
        ranges = [(int(lo), int(hi)) for lo, hi in found["ranges"]]
        return ranges, [LogProof(*each) for each in found.get("proofs", [])]
    except (FileNotFoundError, NotADirectoryError, CodecError):
        return [], []
    except (AttributeError, KeyError, TypeError, ValueError):
        return [], []


def held_splits(disk: Disk, folder: str, within: Range | None = None) -> list[HeldSplit]:
    """Look which ranges of an archive have all of their files.

    Args:
        disk: where the archive is.
        folder: its path there.
        within: only ranges that have a byte of this one; None: all.

    Raises:
        OSError: a file is there and cannot be read.
    """
    found = []
    for name in disk.list_names(f"{folder}/{SPLITS}"):
        lo_text, _, hi_text = name.removesuffix(".json").partition("-")
        if not (lo_text.isdigit() and hi_text.isdigit()):
            continue
        lo, hi = int(lo_text), int(hi_text)
        if within is None or (lo < within[1] and hi > within[0]):
            found.append(HeldSplit(lo, hi, _is_whole(disk, folder, name), name))
    return sorted(found)


def _is_whole(disk: Disk, folder: str, name: str) -> bool:
    """Whether the files of a split are there. Those of an older version are not named, and taken for granted."""
    try:
        said = loads(read_file(disk, f"{folder}/{SPLITS}/{name}"))
        files = said.get("files", [])
        return all(_size(disk, f"{folder}/{path}") == size for path, size in files)
    except (FileNotFoundError, CodecError, AttributeError, TypeError, ValueError):
        return False


def _size(disk: Disk, path: str) -> int:
    """Bytes of a file; -1 if it is not there."""
    try:
        return file_size(disk, path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return -1


def joined(ranges: Sequence[Range]) -> list[Range]:
    """Return ranges in order; neighbours become one."""
    found: list[Range] = []
    for lo, hi in sorted(ranges):
        if found and lo <= found[-1][1]:
            found[-1] = found[-1][0], max(hi, found[-1][1])
        elif lo < hi:
            found.append((lo, hi))
    return found


def overlap(some: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """Return what lies in both of two lists of ranges."""
    return joined(
        [
            (max(lo, begin), min(hi, stop))
            for lo, hi in some
            for begin, stop in others
            if max(lo, begin) < min(hi, stop)
        ]
    )


def without(some: Range, others: Sequence[Range]) -> list[Range]:
    """Return what of a range lies in none of others."""
    left, at = list[Range](), some[0]
    for lo, hi in joined(others):
        if lo > at:
            left.append((at, min(lo, some[1])))
        at = max(at, hi)
    if at < some[1]:
        left.append((at, some[1]))
    return [(lo, hi) for lo, hi in left if lo < hi]


# --- the guard


class ArchiveGuard(NamedTuple):
    """The part of a log that is in archives.

    Attributes:
        settled: every record from the log's start up to this physical offset is in an archive.
        reasons: why a place does not count, or counts less than its mark says.
    """

    settled: int
    reasons: Mapping[str, str]


def guarded_to(disk: Disk, root: str, within: Range, read: ReadLog) -> ArchiveGuard:
    """Look up to which physical offset of a range the log is in an archive that still holds it.

    A place that is not on this machine cannot be looked at from here: its mark counts, which the archive job checks in
    each of its runs.

    Args:
        disk: all files.
        root: the store.
        within: from the log's start to where it matters.
        read: reads the log.

    Raises:
        OSError: a file is there and cannot be read.
    """
    settled, reasons = within[0], dict[str, str]()
    for place, mark in archive_marks(disk, root).items():
        path = place.removeprefix(_LOCAL)
        held, why = mark.archived_to, ""
        if not _is_log_of(mark.proof, within[0], read):
            held, why = 0, "the log was cut and written anew since it was archived there"
        elif "://" not in path:
            held, why = _held_to(disk, path, mark, within)
        if why:
            reasons[place] = why
        settled = max(settled, min(held, mark.archived_to))
    return ArchiveGuard(settled, reasons)


def _is_log_of(proof: LogProof | None, log_start: int, read: ReadLog) -> bool:
    """Whether the log is the one that was archived; what it has deleted since cannot be compared, and need not be."""
    if proof is None or proof.hi <= log_start:
        return True
    lo = max(proof.lo, log_start)
    content = read(lo, proof.hi - lo)
    return content is not None and (lo > proof.lo or proof.is_of(content))


def _held_to(disk: Disk, path: str, mark: ArchiveMark, within: Range) -> tuple[int, str]:
    """Up to where a place holds a range, and why not to where its mark says."""
    ranges, proofs = archive_state(disk, path)
    if not ranges:
        return 0, "no archive is there any more"
    if mark.proof is not None and mark.proof not in proofs:
        return 0, "another archive is there"
    whole = [(each.lo, each.hi) for each in held_splits(disk, path, within) if each.is_whole]
    for lo, hi in overlap(ranges, whole):
        if lo <= within[0] < hi:
            wanted = min(mark.archived_to, within[1])
            return hi, "" if hi >= wanted else f"files of it are missing behind {hi}"
    return 0, f"it does not hold the log at {within[0]}"
