"""The files of a member of a group: its term and vote, the members, and the terms of its log.

`config/brokerGroup.json` has the state that a member must not lose, and the changes of members that are in its log;
`epochFileCheckpoint` has the terms, in RocketMQ's form
(org.apache.rocketmq.store.ha.autoswitch.EpochFileCache 5.3): the number of lines, the CRC-32 of the lines, and
`TERM-OFFSET` lines. Neither has a .bak: an older vote or term would be as bad as none.
"""

import zlib
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

import orjson

from cometmq.codec.bodies.json_object import load_object
from cometmq.model.errors import CodecError, SettingsError, StoreDamaged
from cometmq.model.frozen import dataclass
from cometmq.replication.group.history import Row
from cometmq.replication.group.member import HardState
from cometmq.replication.group.messages import Membership
from cometmq.replication.group.wire import read_memberships
from cometmq.store.disk import Disk, opened, read_file, write_file

STATE_NAME = "brokerGroup.json"
TERMS_NAME = "epochFileCheckpoint"
BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
_BOOT_ID_SIZE = 64  # In bytes, at most.
_REPAIR = (
    "This member may have voted and stored records that it no longer knows of. To repair it, move storePathRootDir away and "
    "start it with an empty one: the leader sends it the whole log"
)


@dataclass(frozen=True, slots=True)
class MemberState:
    """The content of brokerGroup.json.

    Attributes:
        group: Name of the group.
        own: Id of the member.
        voters: Ids of the members at the first start, in the order of dLegerPeers.
        hard: Term, vote, and number of the run.
        boot_id: Identifies the boot of the machine in which the member was last started; empty if the system has none.
        memberships: The members from an offset of the log on, for each change of members in it.
    """

    group: str
    own: str
    voters: tuple[str, ...]
    hard: HardState
    boot_id: str
    memberships: tuple[Row[Membership], ...] = ()


class MemberFiles:
    """The files of a member below its store directory."""

    def __init__(self, store_directory: str, disk: Disk) -> None:
        self._disk = disk
        self._state_path = f"{store_directory}/config/{STATE_NAME}"
        self._terms_path = f"{store_directory}/{TERMS_NAME}"

    def load(self, *, group: str, own: str) -> MemberState | None:
        """Return the state of this member; None if the directory has never been a member's.

        Raises:
            SettingsError: The directory is that of another member or group.
            StoreDamaged: The file is damaged; the message has the repair.
            OSError: The disk failed.
        """
        try:
            content = read_file(self._disk, self._state_path)
        except FileNotFoundError:
            return None
        try:
            state = _decode_state(content)
        except CodecError as error:
            raise StoreDamaged(f"{self._state_path} is damaged: {error}. {_REPAIR}") from None
        if (state.group, state.own) != (group, own):
            raise SettingsError(
                f"storePathRootDir has the data of member {state.own} of the group {state.group}, but this is {own} of "
                f"{group}; write dLegerGroup={state.group} and dLegerSelfId={state.own}, or another storePathRootDir"
            )
        return state

    def boot_id(self) -> str:
        """Return the system's identifier of this boot of the machine; empty if it has none."""
        with suppress(OSError), opened(self._disk, BOOT_ID_PATH, write=False) as fd:
            return self._disk.pread(fd, _BOOT_ID_SIZE, 0).decode().strip()
        return ""

    def save(self, state: MemberState) -> None:
        """Write and flush brokerGroup.json; raise OSError if that fails. Callable in any thread."""
        write_file(self._disk, self._state_path, _encode_state(state))

    def load_terms(self) -> tuple[Row[int], ...]:
        """Return the terms of the log, in order; raise StoreDamaged if the file is damaged or missing."""
        try:
            content = read_file(self._disk, self._terms_path)
            return decode_terms(content)
        except (FileNotFoundError, CodecError) as error:
            why = "it is missing" if isinstance(error, FileNotFoundError) else error
            raise StoreDamaged(f"{self._terms_path} is damaged: {why}. {_REPAIR}") from None

    def save_terms(self, rows: Sequence[Row[int]]) -> None:
        """Write and flush the terms; raise OSError if that fails. Callable in any thread."""
        write_file(self._disk, self._terms_path, encode_terms(rows))


def is_members(store_directory: str, disk: Disk) -> bool:
    """Return whether a store directory belongs to a member of a group."""
    return disk.exists(f"{store_directory}/config/{STATE_NAME}")


def encode_terms(rows: Sequence[Row[int]]) -> bytes:
    """Return the content of epochFileCheckpoint."""
    lines = "".join(f"{term}-{start}\n" for start, term in rows).encode()
    return f"{len(rows)}\n{zlib.crc32(lines) & 0x7FFFFFFF}\n".encode() + lines


def decode_terms(content: bytes) -> tuple[Row[int], ...]:
    """Return the rows in epochFileCheckpoint; CodecError if it is damaged. A CRC of 0 always passes, as in RocketMQ."""
    count, _, rest = content.partition(b"\n")
    crc, _, lines = rest.partition(b"\n")
    try:
        pairs = [line.split(b"-") for line in lines.split(b"\n") if line]
        rows = tuple(Row(int(start), int(term)) for term, start in pairs)
        if len(rows) != int(count):
            raise CodecError(f"it should have {int(count)} lines of terms, not {len(rows)}")
        if int(crc) not in (0, zlib.crc32(lines) & 0x7FFFFFFF):
            raise CodecError("its CRC-32 is wrong")
    except ValueError as error:
        raise CodecError(f"a line is no number, or no TERM-OFFSET: {error}") from None
    for a, b in pairwise(rows):
        if a.start >= b.start or a.value >= b.value:
            raise CodecError("its terms and offsets do not grow")
    return rows


def _encode_state(state: MemberState) -> bytes:
    hard = state.hard
    values = orjson.dumps(
        {
            "group": state.group,
            "selfId": state.own,
            "voters": state.voters,
            "term": hard.term,
            "votedFor": hard.voted_for,
            "run": hard.run,
            "isSure": hard.is_sure,
            "bootId": state.boot_id,
            "memberships": state.memberships,
        },
        default=tuple,
    )
    return b'{"crc":%d,"state":%b}\n' % (zlib.crc32(values), values)


def _decode_state(content: bytes) -> MemberState:
    _, _, values = content.strip().partition(b'"state":')
    outer = load_object(content, STATE_NAME)
    if outer.int64("crc") != zlib.crc32(values.removesuffix(b"}")):
        raise CodecError("its CRC-32 is wrong")
    of = outer.member("state")
    hard = HardState(of.int64("term"), of.text("votedFor"), of.int64("run"), of.flag("isSure"))
    return MemberState(
        of.text("group"), of.text("selfId"), of.texts("voters"), hard, of.text("bootId"),
        read_memberships(of, "memberships"),
    )  # fmt: skip
