"""Key-value configuration by namespace, kept in kvConfig.json in Java's form.

A change holds when it is on the device, and is answered then: the file is written aside and
renamed, so a crash leaves the old table or the new one.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from cometmq.codec.bodies.kv import decode_kv_file, encode_kv_file
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.store.config_file import ConfigFile

# NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG: "broker-a:4;broker-b:4" by topic.
ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"

Tables = Mapping[str, Mapping[str, str]]


class KvConfig:
    """The tables of all namespaces."""

    def __init__(self, file: ConfigFile | None) -> None:
        """With no file they last as long as the process.

        Raises:
            CodecError: the file and its .bak cannot be read.
            OSError: the disk failed.
        """
        self._file = file
        self._tables: Tables = (file.load(decode_kv_file) if file else None) or {}
        self._change = asyncio.Lock()

    def value(self, namespace: str, key: str) -> str | None:
        """A value, or None."""
        return self._tables.get(namespace, {}).get(key)

    def table(self, namespace: str) -> Mapping[str, str] | None:
        """All of a namespace, or None where nobody ever put anything there."""
        return self._tables.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value.

        Raises:
            RequestError: SYSTEM_ERROR: it could not be written; the old value holds.
        """
        async with self._change:
            await self._keep(namespace, {**self._tables.get(namespace, {}), key: value})

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a value; none is no error.

        Raises:
            RequestError: SYSTEM_ERROR: it could not be written; the old value holds.
        """
        async with self._change:
            table = dict(self._tables.get(namespace, {}))
            if table.pop(key, None) is not None:
                await self._keep(namespace, table)

    async def _keep(self, namespace: str, table: Mapping[str, str]) -> None:
        tables = {**self._tables, namespace: table}
        if self._file is not None:
            try:
                await asyncio.to_thread(_save, self._file, encode_kv_file(tables))
            except OSError as error:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR,
                    f"{self._file.path} could not be written: {error.strerror}; nothing changed",
                ) from error
        self._tables = tables


def _save(file: ConfigFile, text: str) -> None:
    """Write it; with a fresh home its folder is not there before the first change."""
    Path(file.path).parent.mkdir(parents=True, exist_ok=True)
    file.save(text)
