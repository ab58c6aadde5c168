"""Reads tables of a store's JSON configuration files, such as offsets of groups or settings of topics."""

from typing import Any

from cometmq.codec.fastjson import loads
from cometmq.model.errors import CodecError
from cometmq.store.disk import Disk, read_file


def config_table(disk: Disk, root: str, name: str, key: str) -> dict[str, Any]:
    """Return the table `key` of a JSON file in a store's `config`, or of its .bak if the file does not have it; else empty."""
    for path in (f"{root}/config/{name}", f"{root}/config/{name}.bak"):
        try:
            found = loads(read_file(disk, path))
        except (FileNotFoundError, CodecError):
            continue
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            return dict(found[key])
    return {}
