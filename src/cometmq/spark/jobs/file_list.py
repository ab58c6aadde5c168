"""File list that limits `spark.read` of a folder to the listed files.

Spark's file sink keeps such a list, and `spark.read` uses it if it reads only that folder (MetadataLogFileIndex of
Spark 4.3): files that are not listed are ignored. It is one file, so a table of several files changes atomically.

    _spark_metadata/0    "v1", then a line of JSON for each file: path, size, times, "action": "add"

Paths are absolute URIs: after a folder is moved, read its versions directly, until a run writes the next version.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from pyarrow import fs

from cometmq.offline.place import hadoop_place, open_place

_FOLDER = "_spark_metadata"
_HEAD = "v1"
_LISTED = re.compile(r".*/((?:cometmq_)?version=[0-9a-f-]+[^/]*)/")


def list_only(place: str, folder: str | None) -> None:
    """Limit `spark.read` of a table's place to the files of one folder in it, or with None to no file at all.

    Raises:
        OSError: The list cannot be written.
    """
    files, root = open_place(place)
    lines = [_HEAD]
    if folder is not None:
        base = f"{_uri(place)}/"
        for info in _data_files(files, f"{root}/{folder}"):
            path = base + quote(info.path.removeprefix(f"{root}/"))
            lines.append(json.dumps(_entry(path, info)))
    files.create_dir(f"{root}/{_FOLDER}", recursive=True)
    path = f"{root}/{_FOLDER}/0"
    # Spark ignores a file list whose name starts with a dot.
    with files.open_output_stream(f"{root}/{_FOLDER}/.new") as stream:
        stream.write("\n".join(lines).encode())
    files.move(f"{root}/{_FOLDER}/.new", path)


def listed_folder(place: str) -> str | None:
    """Return the name of the version folder that `list_only` listed, even if the table's folder was moved to another path.

    None if there is no list, or it has no such folder.
    """
    files, root = open_place(place)
    path = f"{root}/{_FOLDER}/0"
    if files.get_file_info(path).type != fs.FileType.File:
        return None
    with files.open_input_stream(path) as stream:
        _, *lines = stream.read().decode().split("\n")
    if not lines:
        return None
    found = _LISTED.match(unquote(json.loads(lines[0])["path"]))
    return found[1] if found else None


def _data_files(files: fs.FileSystem, folder: str) -> Iterator[fs.FileInfo]:
    found = files.get_file_info(fs.FileSelector(folder, recursive=True))
    for info in sorted(found, key=lambda each: each.path):
        if info.type == fs.FileType.File and not info.base_name.startswith(("_", ".")):
            yield info


def _entry(path: str, info: fs.FileInfo) -> dict[str, object]:
    changed = info.mtime
    return {
        "path": path,
        "size": info.size,
        "isDir": False,
        "modificationTime": 0 if changed is None else int(changed.timestamp() * 1000),
        "blockReplication": 1,
        "blockSize": 1 << 25,
        "action": "add",
    }


def _uri(place: str) -> str:
    place = hadoop_place(place)
    return place.rstrip("/") if "://" in place else Path(place).as_uri()
