"""The mark of a slave: up to where its topics are known to be its master's; it lasts until the broker is a master.

A promoted log may hold messages of topics that the copied table lacks. Either the topic is younger than the
table, and must be made again, or it was deleted, and must stay so. The mark tells: physical offsets have no
clock, and a topic that the table lacks has no message behind the end that the log had with that table, unless
it was made since.
"""

from collections.abc import Mapping
from contextlib import suppress

import orjson

from cometmq.codec.bodies.json_object import load_object
from cometmq.model.data_version import DataVersion
from cometmq.model.frozen import dataclass
from cometmq.store.config_file import ConfigFile
from cometmq.store.disk import Disk


@dataclass(frozen=True, slots=True)
class KnownTopics:
    """A slave's knowledge of its master's topics.

    Attributes:
        log_end: Physical offset at which the master's log ended when it gave the table.
        version: The version of the table then.
    """

    log_end: int
    version: DataVersion


def encode_known(known: KnownTopics) -> str:
    """The text of the file."""
    values = {"logEnd": known.log_end, "dataVersion": known.version.to_json()}
    return orjson.dumps(values).decode()


def decode_known(text: str) -> KnownTopics:
    """Decode the text of the file.

    Raises:
        CodecError: it is no such mark.
    """
    body = load_object(text, "mark of a slave")
    return KnownTopics(body.int64("logEnd"), body.version("dataVersion"))


class CopyMark:
    """The file `slaveMark.json`.

    Attributes:
        known: What it says; None if this broker was no slave since it was a master.
    """

    def __init__(self, file: ConfigFile, disk: Disk) -> None:
        self.known: KnownTopics | None = None
        self._file = file
        self._disk = disk

    def load(self) -> None:
        """Read the file; one that cannot be read says that nothing is known.

        Raises:
            OSError: the disk failed.
        """
        self.known = self._file.load(decode_known, is_needed=False)
        if self.known is None and self._file.is_lost:
            self.known = KnownTopics(0, DataVersion(0))

    def save(self, known: KnownTopics) -> None:
        """Write the file; the topics that it speaks of are on disk. Any thread.

        Raises:
            OSError: it could not be written; the old mark stands.
        """
        if known != self.known:
            self._file.save(encode_known(known))
            self.known = known

    def remove(self) -> None:
        """Forget that this broker was a slave; what followed from the mark is on disk.

        Raises:
            OSError: the disk failed.
        """
        for path in (f"{self._file.path}.bak", self._file.path):
            with suppress(FileNotFoundError):
                self._disk.unlink(path)
        self._disk.sync_directory(self._file.path.rpartition("/")[0])
        self.known = None


def log_end_of(fields: Mapping[str, str], ours: int) -> int:
    """Return the end of the master's log when it gave a table.

    Args:
        fields: The header of its answer; a Java master does not say it.
        ours: The end of the log here before the master was asked, which cannot be behind.
    """
    said = fields.get(LOG_END, "")
    return max(int(said), ours) if said.isdecimal() and len(said) < 20 else ours


# The header field in which a master of ours says where its log ended when it took the table.
LOG_END = "logEnd"
