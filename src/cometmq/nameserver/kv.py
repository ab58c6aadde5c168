"""Key-value configuration by namespace, by default stored in kvConfig.json in Java's form.

With a file, a change takes effect after it is on the disk: the file is written to a temporary name and renamed, so a
crash leaves the old or the new table. Changes that arrive during a write share the next write.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from cometmq.codec.bodies.kv import decode_kv_file, encode_kv_file
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.steps.runner import World
from cometmq.steps.shared import SharedSteps
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.config_file import ConfigFile

Tables = Mapping[str, Mapping[str, str]]
# Returns the tables after a change.
_Change = Callable[[Tables], Tables]


class KvConfig:
    """The key-value configuration of a nameserver: a table of keys and values for each namespace."""

    def __init__(self, file: ConfigFile | None, world: World) -> None:
        """Load the tables from `file`; without it they last as long as the process. `world` (loop) runs the writes.

        Raises:
            CodecError: Neither the file nor its .bak can be decoded, and one exists.
            OSError: The disk failed.
        """
        self._file = file
        self._tables: Tables = (file.load(decode_kv_file) if file else None) or {}
        self._changes: list[_Change] = []  # Those that the next write contains.
        self._writing = SharedSteps(world, self._write)

    def value(self, namespace: str, key: str) -> str | None:
        """Return the value of a key in a namespace, or None if there is none."""
        return self._tables.get(namespace, {}).get(key)

    def table(self, namespace: str) -> Mapping[str, str] | None:
        """Return the table of a namespace, or None if there is none."""
        return self._tables.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> Steps[None]:
        """Set a value; if writing the file fails, keep the old value and raise RequestError (SYSTEM_ERROR)."""
        return self._keep(
            lambda tables: {
                **tables,
                namespace: {**tables.get(namespace, {}), key: value},
            }
        )

    def delete(self, namespace: str, key: str) -> Steps[None]:
        """Delete a value, if there is one; if writing the file fails, keep it and raise RequestError (SYSTEM_ERROR)."""

        def without(tables: Tables) -> Tables:
            table = dict(tables.get(namespace, {}))
            return tables if table.pop(key, None) is None else {**tables, namespace: table}

        return self._keep(without)

    def _keep(self, change: _Change) -> Steps[None]:
        self._changes.append(change)
        yield from self._writing.result()

    def _write(self) -> Steps[None]:
        """Write the tables with all waiting changes to the file, if any, then apply these; drop these if that fails."""
        changes, self._changes = self._changes, []
        tables = self._tables
        for change in changes:
            tables = change(tables)
        if self._file is not None and tables is not self._tables:
            try:
                yield from elsewhere(partial(_save, self._file, encode_kv_file(tables)))
            except OSError as error:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR,
                    f"{self._file.path} could not be written: {error.strerror}; nothing changed",
                ) from error
        self._tables = tables


def _save(file: ConfigFile, text: str) -> None:
    """Create the folder of the file if needed, and write the text to the file."""
    Path(file.path).parent.mkdir(parents=True, exist_ok=True)
    file.save(text)
