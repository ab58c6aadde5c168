"""The fast path of pulls: a read that is one pull of a known kind is answered before it is a command.

A consumer pulls again when its last pull was answered, so a read is one pull, and its header that of the pull before but
for four numbers (`kernel.split_pull`). What the rest of it says is looked at once and kept. A pull that
does not find messages at once becomes a command (docs/design/0047-reads-without-objects.md).

Next: cometmq.broker.service.found_pulls
"""

from time import perf_counter_ns

from cometmq.broker.counters.counters import Counters
from cometmq.broker.parts import Parts
from cometmq.broker.service.found_pulls import FoundPulls, PullHeader
from cometmq.broker.service.pull import Pulls
from cometmq.codec.fields import decode_fields
from cometmq.codec.header_json import decode_json_command
from cometmq.codec.headers.pull import PullRequest
from cometmq.kernel import filled_frame, split_pull
from cometmq.model.bounded_cache import BoundedCache
from cometmq.model.codes import VERSION, RequestCode, ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.flags import RESPONSE
from cometmq.net.peer import Peer
from cometmq.store.reader import GetStatus

_PULL = int(RequestCode.PULL_MESSAGE)
# Of a turn; the pulls behind these become commands, which are stopped when the turn has lasted long enough. Bytes.
TURN_SIZE_MAX = 2 << 20
# The answer's header as `net.answer.answer_head` makes it, in pieces with a place for a number between each two.
_NUMBER = "%"
_HEADER = (
    f'{{"code":{int(ResponseCode.SUCCESS)},"extFields":{{"suggestWhichBrokerId":"{_NUMBER}",'
    f'"nextBeginOffset":"{_NUMBER}","minOffset":"{_NUMBER}","maxOffset":"{_NUMBER}",'
    f'"groupSysFlag":"{_NUMBER}","topicSysFlag":"{_NUMBER}"}},"flag":{RESPONSE},'
    f'"language":"PYTHON","opaque":{_NUMBER},"remark":"{GetStatus.FOUND}",'
    f'"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
)
_PIECES = tuple(piece.encode() for piece in _HEADER.split(_NUMBER))
# Headers that are kept, bytes; each has at most 1 KiB, and costs twice that and this beside.
_KEPT_SIZE, _HEADER_COST = 4 << 20, 2_000
# Numbers by which a header shows where each of them stands.
_SHOWN = 1, 2, 3, 4


class PullIntake:
    """Takes pulls that come alone and find messages.

    Attributes:
        size: bytes of messages that it answered in this turn; whose turns these are begins again with 0.
    """

    codes = frozenset({_PULL})

    def __init__(self, found: FoundPulls, counters: Counters) -> None:
        """Begin without any known header."""
        self.size = 0
        self._found = found
        self._counters = counters
        self._asked: BoundedCache[bytes, PullHeader | None] = BoundedCache(
            self._read,
            size_of=lambda header, _asked: 2 * len(header) + _HEADER_COST,
            size_max=_KEPT_SIZE,
        )

    def take(self, data: bytes, peer: Peer) -> bool:
        """Answer what came from a connection in a turn; False: it was not taken, and nothing was done."""
        size = self.answer(data, peer) if self.size < TURN_SIZE_MAX else 0
        self.size += size
        peer.asks_alone = size > 0
        return size > 0

    def answer(self, data: bytes, peer: Peer) -> int:
        """Answer what came from a connection; gives the bytes of messages, 0: nothing was done."""
        split = split_pull(data)
        if split is None:
            return 0
        began = perf_counter_ns()
        header, queue_id, offset, commit_offset, opaque = split
        asked = self._asked[header]
        if asked is None:
            return 0
        found = self._found.pull(asked, queue_id, offset, commit_offset)
        if found is None:
            return 0
        numbers, records, size = found
        head = filled_frame(_PIECES, (*numbers, opaque), size)
        peer.write_pieces_at_once([head, *records], len(head) + size)
        self._counters.answered(_PULL, 0, 0, perf_counter_ns() - began)
        return size

    def _read(self, header: bytes) -> PullHeader | None:
        """The question of pulls with this header; None where they are not plain."""
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
        return self._found.asked(request)


def pull_intake(pulls: Pulls, parts: Parts) -> PullIntake:
    """An intake of the pulls that find messages; the others are left to `pulls`."""
    return PullIntake(FoundPulls(pulls, parts), parts.counters)
