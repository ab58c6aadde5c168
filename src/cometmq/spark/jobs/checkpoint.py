"""Reading of Spark's streaming checkpoints: the id of the query, and the topic offsets up to which it has read."""

import json
from typing import Any

from pyarrow import fs

from cometmq.model.errors import SettingsError
from cometmq.model.text import decode_reason
from cometmq.offline.place import open_place


def query_id(place: str) -> str:
    """Return the id that Spark gave the query of a checkpoint folder.

    Raises SettingsError if the folder has no such id, or its file `metadata` is damaged.
    """
    files, root = open_place(place)
    try:
        with files.open_input_stream(f"{root}/metadata") as stream:
            found: str = json.loads(stream.read())["id"]
    except FileNotFoundError:
        raise SettingsError(
            f"{place} is not the checkpoint of a query that has started; name the query's own checkpointLocation"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"{place}/metadata is damaged: it has no id of a query ({decode_reason(error)}); restore it from a copy"
        ) from error
    return found


def checkpointed(place: str) -> dict[str, Any]:
    """Return up to which offsets a stream of topics has read, by its checkpoint: `{topic: {broker: {queue: offset}}}`.

    They are the ends (exclusive) of its last finished micro-batch; empty if it has finished none. Raises SettingsError
    if the file with them is missing or damaged.
    """
    files, root = open_place(place)
    folder = f"{root}/commits"
    if files.get_file_info(folder).type != fs.FileType.Directory:
        return {}
    names = [each.base_name for each in files.get_file_info(fs.FileSelector(folder))]
    done = max((int(name) for name in names if name.isdecimal()), default=-1)
    if done < 0:
        return {}
    try:
        with files.open_input_stream(f"{root}/offsets/{done}") as stream:
            # First line: version; second: the query's settings; then one line per source.
            queues: dict[str, Any] = json.loads(stream.read().splitlines()[2]).get("q", {})
    except (FileNotFoundError, ValueError, IndexError, AttributeError) as error:
        raise SettingsError(
            f"{place}/offsets/{done} is missing or damaged ({decode_reason(error)}); restore it from a copy"
        ) from error
    return queues
