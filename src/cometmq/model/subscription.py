"""A subscription to a topic: a tag expression or SQL92, parsed once, matched cheaply.

The broker matches by the hash that a queue entry carries (two tags may share one); the client
matches again by the tag's text. Follows FilterAPI.buildSubscriptionData of RocketMQ 5.3.3.
"""

from dataclasses import dataclass

from cometmq.model.errors import SubscriptionError
from cometmq.model.java_hash import java_hash

ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"
_JAVA_BLANKS = bytes(range(0x21)).decode()


@dataclass(frozen=True, slots=True)
class Subscription:
    """A consumer group's subscription to one topic.

    Attributes:
        topic: the topic.
        expression: as the user wrote it; `*` for everything.
        kind: TAG or SQL92.
        tags: the tags of a TAG expression in its order; empty for `*`.
        codes: their Java hashes, what queue entries carry.
        version: ms; the newer subscription of a group holds.
    """

    topic: str
    expression: str = ALL
    kind: str = TAG
    tags: tuple[str, ...] = ()
    codes: frozenset[int] = frozenset()
    version: int = 0

    @property
    def is_all(self) -> bool:
        """Whether every message matches."""
        return self.kind == TAG and not self.tags

    def matches_tag(self, tag: str | None) -> bool:
        """Whether a message with this tag is wanted, by the tag's text."""
        return not self.tags or tag in self.tags


def trimmed(text: str) -> str:
    """Return a text without the characters up to U+0020 around it, as Java's `String.trim` does.

    `str.strip()` also takes U+00A0 and U+3000 away, which are part of a tag.
    """
    return text.strip(_JAVA_BLANKS)


def parse_subscription(topic: str, expression: str | None, *, version: int = 0) -> Subscription:
    """A tag expression such as `TagA || TagB`; None, empty and `*` mean everything.

    Raises:
        SubscriptionError: when the expression holds no tag at all.
    """
    text = trimmed(expression or "")
    if not text or text == ALL:
        return Subscription(topic, version=version)
    tags = tuple(dict.fromkeys(tag for each in text.split("||") if (tag := trimmed(each))))
    if not tags:
        raise SubscriptionError(
            f"the tag expression {expression!r:.80} of topic {topic!r:.80} has no tag; "
            "write tags with || between them, or *"
        )
    return Subscription(topic, text, TAG, tags, frozenset(map(java_hash, tags)), version)
