"""The fast path of pulls: answers pulls with a known header directly from the bytes that were read.

A consumer usually pulls again as soon as its last pull was answered. The bytes read from its connection are then
mostly one pull, or one per queue, whose header differs from the previous pull's in four numbers only
(`kernel.split_pull`). The rest of the header is parsed once and cached. Most pulls at the end of their queue wait here
for a message. A pull that this path neither answers nor holds is decoded into a command (docs/design/0046-columns.md).
"""

from collections.abc import Callable
from dataclasses import replace

from cometmq.broker.parts import Parts
from cometmq.broker.pull.found_pulls import FoundPulls, KnownPull
from cometmq.broker.pull.pulls import PullAnswer, Pulls
from cometmq.broker.pull.requests import encode
from cometmq.broker.request_caller import RequestCaller
from cometmq.broker.tables.long_polls import HeldPull
from cometmq.codec.fields import decode_fields
from cometmq.codec.header_json import decode_json_command
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.remoting import Command
from cometmq.kernel import split_pull
from cometmq.model.bounded_cache import BoundedCache
from cometmq.model.codes import VERSION, RequestCode, ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.flags import RESPONSE
from cometmq.net.peer import Peer
from cometmq.net.requests import Write
from cometmq.steps.steps import Steps
from cometmq.store.reader import GetStatus

_PULL = int(RequestCode.PULL_MESSAGE)
# Limit per read batch, in bytes of messages. Further pulls become commands, which are interrupted after a time limit.
TURN_SIZE_MAX = 2 << 20
# The answer's header as `net.answer.answer_head` makes it, cut at the places of its numbers.
_NUMBER = "%"


def _pieces_of(code: ResponseCode, status: GetStatus) -> tuple[bytes, ...]:
    header = (
        f'{{"code":{int(code)},"extFields":{{"suggestWhichBrokerId":"{_NUMBER}",'
        f'"nextBeginOffset":"{_NUMBER}","minOffset":"{_NUMBER}","maxOffset":"{_NUMBER}",'
        f'"groupSysFlag":"{_NUMBER}","topicSysFlag":"{_NUMBER}"}},"flag":{RESPONSE},'
        f'"language":"PYTHON","opaque":{_NUMBER},"remark":"{status}",'
        f'"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
    )
    return tuple(piece.encode() for piece in header.split(_NUMBER))


_PIECES = _pieces_of(ResponseCode.SUCCESS, GetStatus.FOUND)
_NONE_PIECES = _pieces_of(ResponseCode.PULL_RETRY_IMMEDIATELY, GetStatus.NO_MATCHED_MESSAGE)
# Size limit of the header cache, in bytes. A header (at most 1 KiB) is counted twice, plus a fixed cost, half of it counters.
_KEPT_SIZE, _HEADER_COST = 8 << 20, 4_000
# Placeholder numbers that show where a header has each of its four numbers.
_SHOWN = 1, 2, 3, 4

# A pull: its parsed header, queue id, offset, offset to commit, opaque.
_Asked = tuple[KnownPull, int, int, int, int]


class _WaitingPull:
    """A held pull of the fast path: the client, the parsed header and its numbers (`loop.caller.Caller`)."""

    __slots__ = ("known", "offset", "opaque", "owner", "queue_id")

    def __init__(
        self, peer: Peer, known: KnownPull, queue_id: int, offset: int, opaque: int
    ) -> None:
        self.owner = peer
        self.known = known
        self.queue_id = queue_id
        self.offset = offset
        self.opaque = opaque

    @property
    def is_gone(self) -> bool:
        """Whether the client's connection is closed."""
        return self.owner.is_closed

    def hold(self) -> None:
        """Do nothing: only those parts of the request are kept that the answer needs."""

    def answer(self, work: Callable[[], PullAnswer | Steps[PullAnswer | None] | None]) -> None:
        """Answer with the result of `work`, as the slow path does."""
        self.as_command().answer(work)

    def as_command(self) -> RequestCaller[PullAnswer]:
        """Return the caller as the slow path has it."""
        return RequestCaller(Command(_PULL, opaque=self.opaque), self.owner, encode)

    def request(self) -> PullRequest:
        """Return the header as the slow path decodes it; the offset to commit is left out, as it is committed."""
        return replace(self.known.request, queue_id=self.queue_id, queue_offset=self.offset)


class PullIntake:
    """The fast path of pulls: answers those that find messages or no match at once, and holds most that must wait.

    Attributes:
        size: Sum of the sizes (`FoundPulls.pull`) of the answers by `take` since the owner set it to 0, which the owner
            does for each batch of reads.
    """

    codes = frozenset({_PULL})

    def __init__(self, found: FoundPulls) -> None:
        self.size = 0
        self._found = found
        self._known: BoundedCache[bytes, KnownPull | None] = BoundedCache(
            self._read,
            size_of=lambda header, _known: 2 * len(header) + _HEADER_COST,
            size_max=_KEPT_SIZE,
        )

    def take(self, data: bytes, peer: Peer, count_max: int) -> tuple[int, int]:
        """Answer or hold up to `count_max` pulls at the start of `data`; return where they end, and how many."""
        left = TURN_SIZE_MAX - self.size
        peer.asks_alone = False
        if left <= 0:
            return 0, 0
        if _frame_end(data, 0) < len(data):
            return self._take_some(data, peer, count_max, left)
        asked = self._asked(data)
        if asked is None:
            return 0, 0
        size = self._answer(asked, peer.write_at_once)
        peer.asks_alone = size > 0
        if not size and not self._hold(asked, peer):
            return 0, 0
        self.size += size
        return len(data), 1

    def _take_some(
        self, data: bytes, peer: Peer, count_max: int, size_max: int
    ) -> tuple[int, int]:
        """Answer or hold pulls, up to the limits or one that needs the slow path; write all answers together."""
        frames: list[bytes | memoryview] = []
        position = size = written = count = 0
        while position < len(data) and count < count_max and size < size_max:
            end = _frame_end(data, position)
            asked = self._asked(data[position:end])
            if asked is None:
                break
            found = self._answer(asked, frames.append)
            if found:
                size, written = size + found, written + len(frames[-1])
            elif not self._hold(asked, peer):
                break
            position, count = end, count + 1
        if frames:
            peer.write_pieces_at_once(frames, written)
            self.size += size
        return position, count

    def answer(self, data: bytes, write: Write) -> int:
        """Answer `data` if it is one pull that this path can answer; return the size that it counts for, else 0."""
        asked = self._asked(data)
        return 0 if asked is None else self._answer(asked, write)

    def _asked(self, data: bytes) -> _Asked | None:
        """Return what a pull asks for; None if `data` is no single pull that this path can handle."""
        split = split_pull(data)
        if split is None:
            return None
        header, queue_id, offset, commit_offset, opaque = split
        known = self._known[header]
        return None if known is None else (known, queue_id, offset, commit_offset, opaque)

    def _answer(self, asked: _Asked, write: Write) -> int:
        try:
            answer = self._found.pull(*asked)
        except Exception:  # noqa: BLE001  As a command it fails again and its error is answered; other requests are not lost.
            return 0
        if answer is None:
            return 0
        write(answer[0])
        return answer[1]

    def _hold(self, asked: _Asked, peer: Peer) -> bool:
        """Hold a pull that `_answer` has just not answered if it is at its queue's end; return whether it is held."""
        known, queue_id, offset, _, opaque = asked
        caller = _WaitingPull(peer, known, queue_id, offset, opaque)
        return self._found.hold(*asked[:4], caller, self._run_again)

    def _run_again(self, held: HeldPull) -> None:
        """Answer a held pull that was woken, on the slow path if this path cannot answer it at once."""
        waiting = held.caller
        assert isinstance(waiting, _WaitingPull)
        try:
            answer = self._found.pull(
                waiting.known, waiting.queue_id, waiting.offset, None, waiting.opaque
            )
        except Exception:  # noqa: BLE001  As in `answer`.
            answer = None
        if answer is None:
            self._found.run_again(held, waiting.request(), waiting.as_command())
        else:
            waiting.owner.write(answer[0])

    def _read(self, header: bytes) -> KnownPull | None:
        """Parse the header of pulls, with blanks for their own numbers; return None if the fast path cannot handle them."""
        queue_id, offset, commit_offset, opaque = _SHOWN
        for name, number in ((b"queueId", queue_id), (b"queueOffset", offset), (b"commitOffset", commit_offset)):  # fmt: skip
            header = header.replace(b'"%b":""' % name, b'"%b":"%d"' % (name, number))
        header = header.replace(b'"opaque":', b'"opaque":%d' % opaque)
        try:
            code, flag, number, _, _, remark, fields, _, _ = decode_json_command(header, b"")
            request = decode_fields(PullRequest, fields)
        except (CodecError, RequestError):
            return None
        shown = request.queue_id, request.queue_offset, request.commit_offset, number
        if code != _PULL or flag or remark is not None or shown != _SHOWN:
            return None
        return self._found.known(request)


def _frame_end(data: bytes, position: int) -> int:
    return position + 4 + int.from_bytes(data[position : position + 4])


def pull_intake(pulls: Pulls, parts: Parts) -> PullIntake:
    """Create the pull fast path; pulls that it cannot answer are left to `pulls`."""
    return PullIntake(FoundPulls(pulls, parts, _PIECES, _NONE_PIECES))
