"""Key-value configuration by namespace, stored in kvConfig.json in Java's form.

A change is answered and takes effect after it is on the disk: the file is written to a temporary name and renamed, so a
crash leaves the old or the new table. Changes during a write share the next one: hundreds take as long as two.
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
# Returns the tables after a change.
_Change = Callable[[Tables], Tables]


@dataclass(slots=True)
class _Changes:
    """Changes that are written together.

    Attributes:
        changes: The changes in their order.
        is_done: Whether writing was attempted.
        error: Why writing failed, or None.
    """

    changes: list[_Change] = field(default_factory=list)
    is_done: bool = False
    error: OSError | None = None


class KvConfig:
    """The tables of all namespaces."""

    def __init__(self, file: ConfigFile | None) -> None:
        """Load the tables; without a file they last as long as the process.

        Raises:
            CodecError: The file and its .bak cannot be decoded.
            OSError: The disk failed.
        """
        self._file = file
        self._tables: Tables = (file.load(decode_kv_file) if file else None) or {}
        self._writing = asyncio.Lock()
        self._next = _Changes()

    def value(self, namespace: str, key: str) -> str | None:
        """Return a value, or None."""
        return self._tables.get(namespace, {}).get(key)

    def table(self, namespace: str) -> Mapping[str, str] | None:
        """Return the table of a namespace, or None if nothing was ever put there."""
        return self._tables.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value.

        Raises:
            RequestError: SYSTEM_ERROR: Writing failed; the old value stays in force.
        """
        await self._keep(
            lambda tables: {
                **tables,
                namespace: {**tables.get(namespace, {}), key: value},
            }
        )

    async def delete(self, namespace: str, key: str) -> None:
        """Delete a value; a missing one is no error.

        Raises:
            RequestError: SYSTEM_ERROR: Writing failed; the old value stays in force.
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
        """Write changes to the disk, all or none."""
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
    """Write the file; its folder may not exist before the first change."""
    Path(file.path).parent.mkdir(parents=True, exist_ok=True)
    file.save(text)
