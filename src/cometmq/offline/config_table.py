"""Reads tables of a store's JSON configuration files, such as offsets of groups or settings of topics."""

from typing import Any

from cometmq.codec.fastjson import loads
from cometmq.model.errors import CodecError
from cometmq.offline.folder import StoreFolder


def config_table(folder: StoreFolder, name: str, key: str) -> dict[str, Any]:
    """Return the table `key` of a JSON file in `config`, or of its .bak if the file does not have it; else empty."""
    for path in (f"config/{name}", f"config/{name}.bak"):
        content = folder.read(path)
        try:
            found = loads(content) if content else None
        except CodecError:
            continue
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            return dict(found[key])
    return {}
