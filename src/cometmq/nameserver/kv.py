"""Key-value configuration by namespace, kept in kvConfig.json in Java's form.

A change holds when it is on the device, and is answered then: the file is written aside and
renamed, so a crash leaves the old table or the new one. Changes that come while it is written share the
next writing: hundreds at once take as long as two.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cometmq.codec.bodies.kv import decode_kv_file, encode_kv_file
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.store.config_file import ConfigFile

# NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG: "broker-a:4;broker-b:4" by topic.
ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"

Tables = Mapping[str, Mapping[str, str]]
# The tables as they are behind a change.
_Change = Callable[[Tables], Tables]


@dataclass(slots=True)
class _Changes:
    """Changes that are written together.

    Attributes:
        changes: in their order.
        is_done: whether it was tried.
        error: why they could not be written.
    """

    changes: list[_Change] = field(default_factory=list)
    is_done: bool = False
    error: OSError | None = None


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
        self._writing = asyncio.Lock()
        self._next = _Changes()

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
        await self._keep(
            lambda tables: {
                **tables,
                namespace: {**tables.get(namespace, {}), key: value},
            }
        )

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a value; none is no error.

        Raises:
            RequestError: SYSTEM_ERROR: it could not be written; the old value holds.
        """

        def without(tables: Tables) -> Tables:
            table = dict(tables.get(namespace, {}))
            return tables if table.pop(key, None) is None else {**tables, namespace: table}

        await self._keep(without)

    async def _keep(self, change: _Change) -> None:
        batch = self._next
        batch.changes.append(change)
        async with self._writing:
            if not batch.is_done:
                self._next = _Changes()
                await self._write(batch)
        if batch.error is not None:
            assert self._file is not None, "nothing else fails"
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"{self._file.path} could not be written: {batch.error.strerror}; nothing changed",
            ) from batch.error

    async def _write(self, batch: _Changes) -> None:
        """Bring changes to the device, all or none."""
        tables = self._tables
        for change in batch.changes:
            tables = change(tables)
        if self._file is not None and tables is not self._tables:
            try:
                await asyncio.to_thread(_save, self._file, encode_kv_file(tables))
            except OSError as error:
                batch.error = error
        if batch.error is None:
            self._tables = tables
        batch.is_done = True


def _save(file: ConfigFile, text: str) -> None:
    """Write the file; with a fresh home its folder is not there before the first change."""
    Path(file.path).parent.mkdir(parents=True, exist_ok=True)
    file.save(text)
