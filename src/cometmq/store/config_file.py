"""A JSON file below `config/` (or another small text file), kept as Java keeps it, but written atomically.

Saving copies usable current content to NAME.bak, writes the new content to a temporary file, syncs and renames it, and
syncs the directory. After a power cut the file has the old content or the new one. (RocketMQ 5.3.3 does not sync: its
topics.json had 0 bytes after a power cut.)

If the file is damaged, NAME.bak is used with a warning. If that does not help either, the content is derived from the
rest of the store if possible, or the start is refused. A damaged file that is replaced is kept under another name.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from cometmq.model.errors import CodecError
from cometmq.store.disk import Disk, opened, read_file, write_file
from cometmq.store.put_aside import put_aside

T = TypeVar("T")
logger = logging.getLogger(__name__)


class ConfigFile:
    """A configuration file that the program writes, with its previous content kept as NAME.bak.

    Attributes:
        is_whole: Whether the last `load` read the file itself, not its .bak.
        is_lost: Whether the last `load` returned None although the file or its .bak existed: none could be used.
    """

    def __init__(self, path: str, disk: Disk) -> None:
        self.path = path
        self.is_whole = self.is_lost = False
        self._disk = disk
        self._good: bytes | None = None  # Content that was last loaded or saved.
        # Whether the file itself has this content, not only the .bak.
        self._is_in_place = False

    def beside(self, name: str) -> "ConfigFile":
        """Return the configuration file of another name in the same folder."""
        return ConfigFile(f"{self.path.rpartition('/')[0]}/{name}", self._disk)

    def load(self, decode: Callable[[str], T], *, is_needed: bool = True) -> T | None:
        """Load the file, or NAME.bak if it is missing, empty or cannot be decoded; return None if neither exists.

        If NAME.bak is used, an existing file is moved aside.

        Args:
            decode: Converts the text to a value; raises ValueError or CodecError if it cannot.
            is_needed: Whether the content cannot be derived otherwise. If False and no existing file can be decoded,
                they are moved aside with a warning, and None is returned.

        Raises:
            CodecError: The existing files are empty or cannot be decoded, and `is_needed` is True.
            OSError: The disk failed.
        """
        self.is_whole = self.is_lost = False
        backup = self.path + ".bak"
        troubles: dict[str, str] = {}
        for path in (self.path, backup):
            try:
                content = read_file(self._disk, path)
                if not content.strip():
                    troubles[path] = "it is empty"
                    continue
                value = decode(content.decode())
            except FileNotFoundError:
                continue
            except (ValueError, CodecError, RecursionError, IsADirectoryError) as error:
                troubles[path] = str(error)
                continue
            self._good, self.is_whole = content, path == self.path
            self._is_in_place = self.is_whole
            if not self.is_whole:
                self._say_backup(troubles.get(self.path, "it is missing"))
            return value
        if troubles and is_needed:
            raise CodecError(
                f"{self.path} and its .bak cannot be read: {'; '.join(troubles.values())}; repair one of them, or "
                "move both away to start without them"
            )
        self.is_lost = bool(troubles)
        for path, trouble in troubles.items():
            kept = put_aside(self._disk, path, f"{path}.damaged")
            logger.warning("%s cannot be read (%s) and was moved to %s", path, trouble, kept)
        return None

    def _say_backup(self, trouble: str) -> None:
        kept = "the file did not exist"
        if self._disk.exists(self.path):
            kept = f"moved to {put_aside(self._disk, self.path, f'{self.path}.damaged')}"
        with opened(self._disk, self.path + ".bak", write=False) as fd:
            saved = datetime.fromtimestamp(self._disk.modified_ms(fd) / 1000, UTC)
        logger.warning(
            "%s cannot be read: %s (%s). Its .bak of %s is used, so later changes are missing",
            self.path, trouble, kept, saved.isoformat(timespec="seconds"),
        )  # fmt: skip

    def save(self, text: str) -> None:
        """Save the text unless the file has it already; after an OSError, the file has the old or the new content.

        The old content becomes NAME.bak, unless it is empty or `load` could not decode it.
        """
        content = text.encode()
        if self._good is None:
            self._read()
        if content == self._good and self._is_in_place:
            return
        # Content that `load` could not decode never becomes the backup.
        if self._good is not None and self._good.strip() and self._is_in_place:
            write_file(self._disk, self.path + ".bak", self._good)
        write_file(self._disk, self.path, content)
        self._good, self._is_in_place = content, True

    def _read(self) -> None:
        try:
            self._good = read_file(self._disk, self.path)
        except FileNotFoundError:
            return
        self._is_in_place = True
