"""A JSON file below `config/`, kept as Java keeps it, and never half written.

Saving moves the present content to NAME.bak and writes the new one aside, brings it to the
device, renames it and brings the directory there too: after a power cut there is the old content
or the new one. (RocketMQ 5.3.3 writes without a sync: its topics.json was 0 bytes after one.)

One rule for all that are damaged: NAME.bak, with a warning; else what the rest of the store tells,
where it does; else a refusal. What could not be read is put aside and kept.
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
    """One such file.

    Attributes:
        is_whole: the last `load` gave the content of the file itself.
        is_lost: it found only what cannot be read, and gave nothing.
    """

    def __init__(self, path: str, disk: Disk) -> None:
        self.path = path
        self.is_whole = self.is_lost = False
        self._disk = disk
        self._good: bytes | None = None  # The last content that was loaded or saved.
        self._is_in_place = False  # The file itself has it, not the .bak alone.

    def beside(self, name: str) -> "ConfigFile":
        """Return another file of the same folder."""
        return ConfigFile(f"{self.path.rpartition('/')[0]}/{name}", self._disk)

    def load(self, decode: Callable[[str], T], *, is_needed: bool = True) -> T | None:
        """Load the file, or NAME.bak where it is missing, empty or cannot be decoded.

        Args:
            decode: makes a value of the text; raises ValueError or CodecError where it cannot.
            is_needed: nothing else tells what it said; else None is given, and a warning, where
                neither file can be read.

        Returns:
            None when neither file is there.

        Raises:
            CodecError: what there is can be decoded from neither; the message names the file.
            OSError: the disk failed.
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
                f"{self.path} and its .bak cannot be read: "
                f"{'; '.join(troubles.values())}; mend one of them, or move both away to begin "
                "without"
            )
        self.is_lost = bool(troubles)
        for path, trouble in troubles.items():
            kept = put_aside(self._disk, path, f"{path}.damaged")
            logger.warning("%s cannot be read (%s) and is kept as %s", path, trouble, kept)
        return None

    def _say_backup(self, trouble: str) -> None:
        """Tell that the .bak is used, and keep what is in the file's place."""
        kept = "nothing stood there"
        if self._disk.exists(self.path):
            kept = f"kept as {put_aside(self._disk, self.path, f'{self.path}.damaged')}"
        with opened(self._disk, self.path + ".bak", write=False) as fd:
            saved = datetime.fromtimestamp(self._disk.modified_ms(fd) / 1000, UTC)
        logger.warning(
            "%s cannot be read: %s (%s). Its .bak of %s is used: what changed after that is missing",
            self.path, trouble, kept, saved.isoformat(timespec="seconds"),
        )  # fmt: skip

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
