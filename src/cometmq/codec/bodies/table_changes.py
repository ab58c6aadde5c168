"""Changes of a broker's tables, as a group that elects its leader writes them to its log (docs/design/0068).

The body of such a record is an object with a member for each table. In it, each changed key has its new value, or an empty
object if it is gone, because fastjson writes no null. The record that begins a snapshot has an empty object for each of its
tables (of earlier versions: none), and the one that ends it has the place of the first instead.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object

# Topic of the records, with one queue; no client may send to it.
TABLES_TOPIC = "rmq_sys_broker_tables"
# Tags of the records: of a change, and of the first and last record of a snapshot.
CHANGE_TAG, BEGIN_TAG, END_TAG = "CHANGE", "SNAPSHOT_BEGIN", "SNAPSHOT_END"

# Values by key, None if a key is gone, for each table by its name.
Changes = dict[str, dict[str, Any]]
# Decodes the value of a key of the object, which is a table; raises CodecError if it is malformed.
ReadValue = Callable[[JsonObject, str], Any]


class SnapshotPlace(NamedTuple):
    """The place of a snapshot of all tables in the log.

    Attributes:
        first: Queue offset of its first record.
        begin: Physical offset of its first record.
        size: Size of its records in bytes.
    """

    first: int
    begin: int
    size: int


def encode_changes(changes: Mapping[str, Mapping[str, Mapping[str, object] | None]]) -> bytes:
    """Encode changes, given as JSON values, or None if a key is gone, as the body of a record."""
    return fastjson.dumps(
        {
            name: {key: value or {} for key, value in values.items()}
            for name, values in changes.items()
        }
    )


def decode_changes(body: bytes, readers: Mapping[str, ReadValue]) -> Changes:
    """Decode the body of a record; tables without a reader or a member are left out. Raises CodecError if it is malformed."""
    tables = load_object(body, "table changes")
    changes: Changes = {}
    for name, read in readers.items():
        if name not in tables:
            continue
        part = tables.member(name)
        changes[name] = {
            str(key): read(part, key) if part.member(key).raw() else None for key in part.raw()
        }
    return changes


def encode_place(place: SnapshotPlace) -> bytes:
    """Encode the body of the record that ends a snapshot."""
    return fastjson.dumps(
        {"firstOffset": place.first, "beginOffset": place.begin, "size": place.size}
    )


def decode_place(body: bytes) -> SnapshotPlace:
    """Decode the body of the record that ends a snapshot. Raises CodecError if it is malformed."""
    part = load_object(body, "end of a snapshot")
    return SnapshotPlace(
        part.int64("firstOffset"), part.int64("beginOffset"), part.int64("size")
    )
