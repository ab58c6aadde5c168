"""The mark of a slave: up to which offset its topics are known to be its master's; removed on promotion.

A promoted log may hold messages of topics that the copied table lacks. Such a topic is either younger than the table
and must be recreated, or it was deleted and must stay deleted. The mark tells which: the topic has messages after the
log's end at the time of the table only if it was created since.
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
    """The state of a slave's copy of its master's topics.

    Attributes:
        log_end: Physical offset, usually the master's end when it sent the table. A topic that the table lacks counts as
            created later if it has messages after this offset, else as deleted.
        version: The version of that table.
    """

    log_end: int
    version: DataVersion

    @property
    def is_nothing(self) -> bool:
        """Whether no table is known: none was ever copied, or the mark is damaged."""
        return self == NEVER_COPIED


# A slave that has never copied its master's topics, or does not know it. A master's log may be empty, so offset 0 alone
# does not tell.
NEVER_COPIED = KnownTopics(0, DataVersion(0))


def encode_known(known: KnownTopics) -> str:
    """Encode the content of slaveMark.json."""
    values = {"logEnd": known.log_end, "dataVersion": known.version.to_json()}
    return orjson.dumps(values).decode()


def decode_known(text: str) -> KnownTopics:
    """Decode the content of slaveMark.json; raise CodecError if it is not a mark."""
    body = load_object(text, "mark of a slave")
    return KnownTopics(body.int64("logEnd"), body.version("dataVersion"))


class CopyMark:
    """The file `slaveMark.json`: up to which log offset the topics here are known to be the master's.

    Attributes:
        known: Its content; None without a mark, as on a master; NEVER_COPIED if the file and its .bak are damaged.
    """

    def __init__(self, file: ConfigFile, disk: Disk) -> None:
        self.known: KnownTopics | None = None
        self._file = file
        self._disk = disk

    def load(self) -> None:
        """Read slaveMark.json or its .bak; if there are only damaged ones, write NEVER_COPIED.

        Raises:
            OSError: The disk failed.
        """
        self.known = self._file.load(decode_known, is_needed=False)
        if self.known is None and self._file.is_lost:
            self.save(NEVER_COPIED)

    def save(self, known: KnownTopics) -> None:
        """Write slaveMark.json if its content changes; the topics must be on disk already. Callable in any thread.

        Raises:
            OSError: It could not be written.
        """
        if known != self.known:
            self._file.save(encode_known(known))
            self.known = known

    def remove(self) -> None:
        """Remove slaveMark.json and its .bak after a promotion, once the tables are on disk; raise OSError on failure."""
        for path in (f"{self._file.path}.bak", self._file.path):
            with suppress(FileNotFoundError):
                self._disk.unlink(path)
        self._disk.sync_directory(self._file.path.rpartition("/")[0])
        self.known = None


def log_end_of(fields: Mapping[str, str], ours: int) -> int:
    """Return the end of the master's log when it sent a table, from the header `fields` of its answer; at least `ours`.

    `ours` is the end of the log here before the request, which is returned for a Java master: it does not send its end.
    """
    said = fields.get(LOG_END, "")
    return max(int(said), ours) if said.isdecimal() and len(said) < 20 else ours


# Header field in which a master of this project sends the end of its log at the time of a table.
LOG_END = "logEnd"
