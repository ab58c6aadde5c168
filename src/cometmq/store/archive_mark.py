"""Marks of a store's archives (`archived.json`), and the check that an archive holds what its mark claims.

    {"archivedTo": 1073741824, "place": "file:///archive/broker-a",
     "places": {"file:///archive/broker-a": {"archivedTo": 1073741824, "proof": [1073737728, 1073741824, "9f86…"]}}, "v": 1}

An archive of a log is a folder:

    PLACE/_archive/archive.json     the ranges that it claims to hold, and proofs of the log that they are of
    PLACE/_archive/splits/LO-HI.json     the files of each range, and their sizes

A mark in the store is only a claim: the place may have been emptied, moved or used for another log since, and the log
may have been cut and written anew. `held_splits` checks which ranges a place still holds. A proof, a hash of
bytes near the archive's end, shows that the log is the one that was archived. With archiveGuard=true the
cleaner only deletes log files that `guarded_to` finds archived: in a place that still holds them, or in one outside
this machine, whose files are not checked.
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
    """Hash of some bytes of a log, which identifies the log.

    Attributes:
        lo: Physical offset of the first byte.
        hi: Physical offset after the last byte.
        digest: SHA-256 of the bytes, hexadecimal.
    """

    lo: int
    hi: int
    digest: str

    def is_of(self, content: bytes) -> bool:
        """Return whether these bytes have the hash."""
        return digest_of(content) == self.digest


class ArchiveMark(NamedTuple):
    """The progress of a log's archive at one place.

    Attributes:
        archived_to: Physical offset up to which, as the mark claims, the log is in the archive.
        proof: Proof of the archived log; None if the mark has none.
    """

    archived_to: int
    proof: LogProof | None = None


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of some bytes, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def archive_marks(disk: Disk, root: str) -> dict[str, ArchiveMark]:
    """Return the marks of a store's archives by place; empty if the file is missing or damaged; may raise OSError."""
    try:
        found = loads(read_file(disk, f"{root}/{ARCHIVED_FILE}"))
        places = found["places"] if "places" in found else {found["place"]: found}
        return {
            place: ArchiveMark(int(mark["archivedTo"]), proof_of(mark.get("proof")))
            for place, mark in places.items()
        }
    except (FileNotFoundError, CodecError, AttributeError, KeyError, TypeError, ValueError):
        return {}


def proof_of(found: Any) -> LogProof | None:
    """Return a proof from its JSON form; None if that is empty. Raise TypeError or ValueError if it is something else."""
    if not found:
        return None
    lo, hi, digest = found
    return LogProof(int(lo), int(hi), str(digest))


def archived_to(disk: Disk, root: str) -> int:
    """Return the largest physical offset of all marks of a store, 0 without valid ones; raise OSError if reading fails."""
    return max((mark.archived_to for mark in archive_marks(disk, root).values()), default=0)


def note_archived(
    disk: Disk, root: str, offset: int, place: str, proof: LogProof | None = None
) -> int:
    """Record that the log before a physical offset is archived at a place, in place of its old mark; return the offset.

    Raises:
        OSError: The marks could not be read or written.
    """
    marks = archive_marks(disk, root)
    marks[place] = ArchiveMark(offset, proof)
    # Older versions, which know a single mark, only read these two.
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
    """A range of the log in an archive, and whether its files are there.

    Attributes:
        lo: Physical offset of the range's start.
        hi: Physical offset of the range's end.
        is_whole: Whether all files that its description names exist with their sizes.
        name: Name of the file that describes the range.
    """

    lo: int
    hi: int
    is_whole: bool
    name: str


def archive_state(disk: Disk, folder: str) -> tuple[list[Range], list[LogProof]]:
    """Return the (from, to) log ranges that an archive claims, and its proofs, newest last.

    Both are empty if the archive's description is missing or damaged, or if the archive has only some topics.

    Raises:
        OSError: A file exists but cannot be read.
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
    """Return the log ranges in an archive (with `within`, those that overlap it), and whether each is whole.

    Raises:
        OSError: A file exists but cannot be read.
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
    """Return whether all files that a range's description names have their sizes; False if it is missing or damaged."""
    try:
        said = loads(read_file(disk, f"{folder}/{SPLITS}/{name}"))
        files = said.get("files", [])
        return all(_size(disk, f"{folder}/{path}") == size for path, size in files)
    except (FileNotFoundError, CodecError, AttributeError, TypeError, ValueError):
        return False


def _size(disk: Disk, path: str) -> int:
    """Return the size of a file in bytes; -1 if there is no such file."""
    try:
        return file_size(disk, path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return -1


def joined(ranges: Sequence[Range]) -> list[Range]:
    """Return the ranges that are not empty, in order, with adjacent and overlapping ones joined."""
    found: list[Range] = []
    for lo, hi in sorted(ranges):
        if found and lo <= found[-1][1]:
            found[-1] = found[-1][0], max(hi, found[-1][1])
        elif lo < hi:
            found.append((lo, hi))
    return found


def overlap(some: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """Return the intersection of two lists of ranges."""
    return joined(
        [
            (max(lo, begin), min(hi, stop))
            for lo, hi in some
            for begin, stop in others
            if max(lo, begin) < min(hi, stop)
        ]
    )


def without(some: Range, others: Sequence[Range]) -> list[Range]:
    """Return the parts of a range that are in none of the others."""
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
        settled: Physical offset up to which one archive counts as having the log from its start; that start if none does.
        reasons: By place, why an archive does not count, or counts less than its mark claims.
    """

    settled: int
    reasons: Mapping[str, str]


def guarded_to(disk: Disk, root: str, within: Range, read: ReadLog) -> ArchiveGuard:
    """Return up to which physical offset one of the archives counts as having the log, and why some do not count.

    The files of a place outside this machine cannot be checked here; its mark counts unless its proof does not fit the
    log, because each archive job checks the files. `within` is the range from the log's start to the last relevant offset.

    Raises:
        OSError: A file exists but cannot be read.
    """
    settled, reasons = within[0], dict[str, str]()
    for place, mark in archive_marks(disk, root).items():
        path = place.removeprefix(_LOCAL)
        held, why = mark.archived_to, ""
        if not _is_log_of(mark.proof, within[0], read):
            held, why = 0, "the log was truncated and rewritten after it was archived there"
        elif "://" not in path:
            held, why = _held_to(disk, path, mark, within)
        if why:
            reasons[place] = why
        settled = max(settled, min(held, mark.archived_to))
    return ArchiveGuard(settled, reasons)


def _is_log_of(proof: LogProof | None, log_start: int, read: ReadLog) -> bool:
    """Return whether the log is the one that was archived.

    True without a proof, or if some of the bytes that it covers are deleted and the log reaches their end. If the log
    still has all of them, their hash must be the same.
    """
    if proof is None or proof.hi <= log_start:
        return True
    lo = max(proof.lo, log_start)
    content = read(lo, proof.hi - lo)
    return content is not None and (lo > proof.lo or proof.is_of(content))


def _held_to(disk: Disk, path: str, mark: ArchiveMark, within: Range) -> tuple[int, str]:
    """Return the offset up to which a place has the log from the start of `within`, else 0; and why not more, or ""."""
    ranges, proofs = archive_state(disk, path)
    if not ranges:
        return 0, "the archive no longer exists"
    if mark.proof is not None and mark.proof not in proofs:
        return 0, "another archive is in this folder"
    whole = [(each.lo, each.hi) for each in held_splits(disk, path, within) if each.is_whole]
    for lo, hi in overlap(ranges, whole):
        if lo <= within[0] < hi:
            wanted = min(mark.archived_to, within[1])
            return hi, "" if hi >= wanted else f"its files after {hi} are missing"
    return 0, f"it does not contain the log at {within[0]}"
