"""Places of files: a local path or a URI.

`s3://` and `s3a://` name the same place; pyarrow knows the first one, Hadoop (used by Spark) the second.
"""

import re
from pathlib import Path
from urllib.parse import unquote

from pyarrow import fs

from cometmq.model.bounded_cache import keep_short
from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes

_S3, _S3A = "s3://", "s3a://"
_FILE = re.compile(r"file:(?://)?(/.*)")
_PATTERN = re.compile(r"([\\\[\]{}*?^])")
_URI = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)


def same_place(place: str) -> str:
    """Return a place as an absolute path, or as a URI that has `s3://` instead of `s3a://`."""
    if place.startswith(_S3A):
        return _S3 + place.removeprefix(_S3A)
    return place if "://" in place else str(Path(place).absolute())


def local_place(place: str) -> str:
    """Return the absolute path of a folder on this machine; raises SettingsError for a URI.

    Without this check, a local folder with the URI as its name would be created.
    """
    if _URI.match(place):
        raise SettingsError(
            f"{place} is not a folder of this machine: copy it to this machine and name its path"
        )
    return str(Path(place).absolute())


def hadoop_place(place: str) -> str:
    """Return a place as Spark's own readers and writers take it: `s3a://` for `s3://`, a path for `file://`.

    pyarrow and delta-rs decode a URI's `%20`; to Hadoop it is three characters of a name.
    """
    if local := _FILE.fullmatch(place):
        return unquote(local[1])
    place = same_place(place)
    return _S3A + place.removeprefix(_S3) if place.startswith(_S3) else place


@keep_short(64, length_max=4096)
def open_place(place: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a place, and its path there without a trailing slash.

    Raises:
        SettingsError: The place cannot be opened.
    """
    place = same_place(place)
    if "://" not in place:
        return fs.LocalFileSystem(), place
    try:
        files, path = fs.FileSystem.from_uri(place)
    except (ValueError, OSError, NotImplementedError) as error:
        why = str(error).partition("\n")[0]
        raise SettingsError(
            f"{in_quotes(place)} is not a folder that can be opened: {why}; name a path, or a URI such as "
            "file:///folder, s3://bucket/folder, gs://bucket/folder, hdfs://host/folder"
        ) from error
    return files, path.rstrip("/")


def read_path(place: str) -> str:
    """Return a place in the form for Spark's readers, with pattern characters such as brackets, `*` and `?` escaped."""
    return _PATTERN.sub(r"\\\1", hadoop_place(place))
