r"""The JSON header of a pull, as text around what differs from one pull of a queue to the next.

    {"code":11,"extFields":{"consumerGroup":"g","topic":"t","queueId":"1","queueOffset":"   front
    17                                                                                      the offset
    ","maxMsgNums":"32","sysFlag":"7","commitOffset":"                                      middle: before
    16                                                                                      the offset to commit
    ","suspendTimeoutMillis":"15000", ...                                                   middle: behind
    ,"bname":"broker-a"},"flag":0,"language":"PYTHON","opaque":                             back

It is what a send's header is (`codec.send_text`), and leaves the same way.
"""

from typing import NamedTuple

from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.send_text import SendPieces, json_text, tail_text
from cometmq.model.codes import RequestCode

_OFFSET, _COMMIT = "queueOffset", "commitOffset"


class PullText(NamedTuple):
    """The text of all pulls that differ from one by their offsets alone."""

    front: str
    before: str
    behind: str
    back: str

    def pieces(self, offset: int, commit_offset: int) -> SendPieces:
        """The header of the pull from one offset that commits another."""
        return self.front, offset, f"{self.before}{commit_offset}{self.behind}", self.back


def pull_text(header: PullRequest) -> PullText:
    """The text of a pull, and of those from other offsets.

    Raises:
        TypeError: a name in it cannot be UTF-8.
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
