"""Options of the format "rocketmq-store", typed and checked together.

The module imports nothing that reads a store, because the process in which Spark asks for the columns needs only these.
"""

from collections.abc import Mapping
from typing import Any

from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes
from cometmq.offline.choices import SPLIT_BYTES, Mode
from cometmq.spark.options import (
    TABLE_PREFIX,
    Option,
    moment,
    one_of,
    read_options,
    text,
    truth,
    whole,
    words,
)
from cometmq.spark.store.schema import MESSAGES, VIEWS

PATH = Option("path", text, None, "Required; also the argument of `load`. The store directory (storePathRootDir): a path, or a URI of pyarrow's file systems such as `s3://bucket/store`.")  # fmt: skip

READ_OPTIONS = (
    PATH,
    Option("commitLogPath", words, "", "Folders of the log, separated by commas, if it is outside the store directory (storePathCommitLog)."),
    Option("view", one_of(*VIEWS), MESSAGES, "What the rows are: `messages`, `consumequeue`, `index`, `verify`, `packed-cq`, `files`, `offsets` or `topics`."),
    Option("topics", words, "", "Only these topics, separated by commas. Views of messages and queues."),
    Option("deletedTopics", truth, "false", "`true`: also return records of deleted topics that are still in the log. View `messages`."),
    Option("splitBytes", whole(1), str(SPLIT_BYTES), "Maximum number of bytes of the log in one task."),
    Option("startingPhysicalOffset", whole(), None, "Only records that start at or after this physical offset. A stream starts here. Default: the oldest record."),
    Option("endingPhysicalOffset", whole(), None, "Only records that start before this physical offset. Batches only."),
    Option("startingTimestamp", moment, None, "Only records stored at or after this time, in ms since 1970."),
    Option("endingTimestamp", moment, None, "Only records stored before this time, in ms since 1970."),
    Option("mode", one_of(*Mode), str(Mode.PERMISSIVE), "How to handle damaged records: `PERMISSIVE` (a row with `valid` false), `DROPMALFORMED` (a warning) or `FAILFAST` (an error)."),
    Option("verifyCrc", truth, "true", "Check the CRC of every body. `false`: a tenth faster, but `valid` does not cover bodies."),
    Option("rawRecord", truth, "false", "Add the column `rawRecord`: the bytes of the record; for a batch of a batch topic, of the whole batch. Archives need it to be restorable."),
    Option("decompress", truth, "true", "Decompress bodies. `false`: return them as stored."),
    Option("propertiesFormat", one_of("map", "raw", "json"), "map", "Column `properties`: MAP<STRING,STRING>, the stored text (faster), or a JSON object as text."),
    Option("columns", words, "", "The columns to read, in order, separated by commas. Default: all of the view. Fewer are much faster."),
    Option("brokerName", text, "", "Value of the column `brokerName`, which the log does not contain."),
    Option("indexSlots", whole(1), None, "Slots of an index file (maxHashSlotNum), if it cannot be derived from the files."),
    Option("maxBytesPerTrigger", whole(1), None, "Maximum number of bytes of the log in one micro-batch. Streams only."),
)  # fmt: skip

WRITE_OPTIONS = (
    PATH,
    Option("queueFileSize", whole(20), None, "Bytes of a queue file (mappedFileSizeConsumeQueue). Default: the size of the existing files, or 6000000."),
)  # fmt: skip

_ONLY_STREAM = ("maxBytesPerTrigger",)
_ONLY_BATCH = ("endingPhysicalOffset", "endingTimestamp")


def read_values(options: Mapping[str, str], *, is_stream: bool) -> dict[str, Any]:
    """Return the values of a read's options; SettingsError if one is unknown, invalid, missing or in conflict."""
    value = read_options(options, READ_OPTIONS, WRITE_OPTIONS)
    _check(value, is_stream=is_stream)
    return value


def values_of_either(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a read's options before Spark says whether it is a batch or a stream.

    Options that only streams have are ignored. Raises SettingsError as `read_values` does for a batch.
    """
    known = {name.lower() for name in _ONLY_STREAM}
    kept = {
        name: value
        for name, value in options.items()
        if name.lower().removeprefix(TABLE_PREFIX) not in known
    }
    return read_values(kept, is_stream=False)


def _check(value: Mapping[str, Any], *, is_stream: bool) -> None:
    if value["path"] is None:
        raise SettingsError(
            "option 'path' is required, e.g. .load(\"/var/lib/rocketmq/store\")"
        )
    for name in _ONLY_BATCH if is_stream else _ONLY_STREAM:
        if value[name] is not None:
            mode = "stream" if is_stream else "batch"
            raise SettingsError(f"option '{name}' has no effect for a {mode}; remove it")
    for what in ("PhysicalOffset", "Timestamp"):
        start, end = value[f"starting{what}"], value[f"ending{what}"]
        if start is not None and end is not None and start > end:
            raise SettingsError(
                f"option 'starting{what}' ({start}) is after option 'ending{what}' ({end})"
            )
    if is_stream and value["view"] != MESSAGES:
        raise SettingsError(
            f"view {in_quotes(value['view'])} cannot be read as a stream; read it as a batch"
        )
