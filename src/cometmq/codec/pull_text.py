r"""The JSON header of a pull, as text pieces around the values that differ between pulls of a queue.

    {"code":11,"extFields":{"consumerGroup":"g","topic":"t","queueId":"1","queueOffset":"   front
    17                                                                                      the offset
    ","maxMsgNums":"32","sysFlag":"7","commitOffset":"                                      middle: before
    16                                                                                      the offset to commit
    ","suspendTimeoutMillis":"15000", ...                                                   middle: behind
    ,"bname":"broker-a"},"flag":0,"language":"PYTHON","opaque":                             back

Headers of sends work in the same way (`codec.send_text`).
"""

from typing import NamedTuple

from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.send_text import SendPieces, json_text, tail_text
from cometmq.model.codes import RequestCode

_OFFSET, _COMMIT = "queueOffset", "commitOffset"


class PullText(NamedTuple):
    """The header of a queue's pulls, in text pieces around the two offsets that change from pull to pull."""

    front: str
    before: str
    behind: str
    back: str

    def pieces(self, offset: int, commit_offset: int) -> SendPieces:
        """Return the header pieces of a pull from `offset`; it commits `commit_offset` if its sysFlag says so."""
        return self.front, offset, f"{self.before}{commit_offset}{self.behind}", self.back


def pull_text(header: PullRequest) -> PullText:
    """Encode the header of a queue's pulls once, in text pieces around the two offsets that change.

    The header must name the broker (`broker_name`).

    Raises:
        TypeError: A text in the header is no valid Unicode.
    """
    fields = encode_fields(header)
    last, broker_name = fields.popitem()
    assert last == "bname", "a signature goes before it"
    written = {name: f"{json_text(name)}:{json_text(value)}" for name, value in fields.items()}
    names = list(fields)
    at, commit_at = names.index(_OFFSET), names.index(_COMMIT)
    texts = list(written.values())
    front = ",".join([*texts[:at], f'"{_OFFSET}":"'])
    before = ",".join(['"', *texts[at + 1 : commit_at], f'"{_COMMIT}":"'])
    behind = ",".join(['"', *texts[commit_at + 1 :]])
    return PullText(
        f'{{"code":{RequestCode.PULL_MESSAGE.value},"extFields":{{{front}',
        before,
        behind,
        f',"{last}":{json_text(broker_name)}{tail_text()}',
    )
