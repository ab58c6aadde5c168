"""A JSON file below `config/`, kept as Java keeps it, and never half written.

Saving moves the present content to NAME.bak and writes the new one aside, brings it to the
device, renames it and brings the directory there too: after a power cut there is the old content
or the new one. (RocketMQ 5.3.3 writes without a sync: its topics.json was 0 bytes after one.)
Loading falls back to NAME.bak as ConfigManager.load of RocketMQ does.
"""

from collections.abc import Callable
from typing import TypeVar

from cometmq.model.errors import CodecError
from cometmq.store.disk import Disk, read_file, write_file

T = TypeVar("T")


class ConfigFile:
    """One such file."""

    def __init__(self, path: str, disk: Disk) -> None:
        self.path = path
        self._disk = disk
        self._good: bytes | None = None  # The last content that was loaded or saved.
        self._is_in_place = False  # The file itself has it, not the .bak alone.

    def load(self, decode: Callable[[str], T]) -> T | None:
        """Its content, or that of NAME.bak where it is missing, empty or cannot be decoded.

        Args:
            decode: makes a value of the text; raises ValueError or CodecError where it cannot.

        Returns:
            None when neither file is there, or has a byte in it.

        Raises:
            CodecError: what there is can be decoded from neither; the message names the file.
            OSError: the disk failed.
        """
        trouble: Exception | None = None
        for path in (self.path, self.path + ".bak"):
            try:
                content = read_file(self._disk, path)
                if content.strip():
                    value = decode(content.decode())
                    self._good, self._is_in_place = content, path == self.path
                    return value
            except FileNotFoundError:
                continue
            except (ValueError, CodecError, RecursionError) as error:
                trouble = trouble or error
        if trouble is not None:
            raise CodecError(
                f"{self.path} and its .bak cannot be read: {trouble}; mend one of them, or "
                "move both away to begin without"
            ) from trouble
        return None

    def save(self, text: str) -> None:
        """Make this the content; nothing is written when it is already.

        Raises:
            OSError: it could not be written; the old content stands.
        """
        content = text.encode()
        if self._good is None:
            self._read()
        if content == self._good and self._is_in_place:
            return
        # What load could not decode never becomes the backup.
        if self._good is not None and self._good.strip() and self._is_in_place:
            write_file(self._disk, self.path + ".bak", self._good)
        write_file(self._disk, self.path, content)
        self._good, self._is_in_place = content, True

    def _read(self) -> None:
        """Take what is there as good, for one that saves without having loaded."""
        try:
            self._good = read_file(self._disk, self.path)
        except FileNotFoundError:
            return
        self._is_in_place = True
