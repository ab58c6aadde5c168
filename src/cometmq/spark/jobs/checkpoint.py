"""Reading of Spark's streaming checkpoints: the id of the query, and the topic offsets up to which it has read."""

import json
from typing import Any

from pyarrow import fs

from cometmq.model.errors import SettingsError
from cometmq.offline.place import open_place


def query_id(place: str) -> str:
    """Return the id that Spark gave the query of a checkpoint folder; raise SettingsError if the folder has none."""
    files, root = open_place(place)
    try:
        with files.open_input_stream(f"{root}/metadata") as stream:
            found: str = json.loads(stream.read())["id"]
    except FileNotFoundError:
        raise SettingsError(
            f"{place} is not the checkpoint of a query that has started; name the query's own checkpointLocation"
        ) from None
    return found


def checkpointed(place: str) -> dict[str, Any]:
    """Return up to which offsets a stream of topics has read, by its checkpoint: `{topic: {broker: {queue: offset}}}`.

    They are the ends (exclusive) of its last finished micro-batch; empty if it has finished none.
    """
    files, root = open_place(place)
    folder = f"{root}/commits"
    if files.get_file_info(folder).type != fs.FileType.Directory:
        return {}
    names = [each.base_name for each in files.get_file_info(fs.FileSelector(folder))]
    done = max((int(name) for name in names if name.isdecimal()), default=-1)
    if done < 0:
        return {}
    with files.open_input_stream(f"{root}/offsets/{done}") as stream:
        # First line: version; second: the query's settings; then one line per source.
        offsets = json.loads(stream.read().splitlines()[2])
    queues: dict[str, Any] = offsets.get("q", {})
    return queues
