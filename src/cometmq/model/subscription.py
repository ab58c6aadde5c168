"""A subscription to a topic by a tag expression or an SQL92 expression, and the parser of tag expressions.

The broker matches tags by the hash in a queue entry, which two tags may share; clients therefore match again by the
text of the tag. Follows FilterAPI.buildSubscriptionData of RocketMQ 5.3.3.
"""

from dataclasses import dataclass

from cometmq.model.errors import SubscriptionError
from cometmq.model.java_hash import java_hash
from cometmq.model.text import in_quotes

ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"
_JAVA_BLANKS = bytes(range(0x21)).decode()


@dataclass(frozen=True, slots=True)
class Subscription:
    """A consumer group's subscription to a topic.

    Attributes:
        topic: Name of the topic.
        expression: Expression of the user; `*` for all messages.
        kind: TAG or SQL92.
        tags: Distinct tags of a TAG expression, in order; empty for `*` and SQL92.
        codes: Java hashes of the tags, as in queue entries.
        version: Version, usually a time in ms.
    """

    topic: str
    expression: str = ALL
    kind: str = TAG
    tags: tuple[str, ...] = ()
    codes: frozenset[int] = frozenset()
    version: int = 0

    @property
    def is_all(self) -> bool:
        """Whether every message matches; False for SQL92."""
        return self.kind == TAG and not self.tags

    def matches_tag(self, tag: str | None) -> bool:
        """Return whether a tag is one of the subscription's tags; always True for `*` and SQL92, which have none."""
        return not self.tags or tag in self.tags


def trimmed(text: str) -> str:
    """Strip characters up to U+0020 from both ends, as Java's `String.trim` does; `str.strip()` strips other ones."""
    return text.strip(_JAVA_BLANKS)


def parse_subscription(topic: str, expression: str | None, *, version: int = 0) -> Subscription:
    """Parse a tag expression such as `TagA || TagB`; None, a blank text and `*` mean all messages.

    Raises SubscriptionError if another expression contains no tag, such as `||`.
    """
    text = trimmed(expression or "")
    if not text or text == ALL:
        return Subscription(topic, version=version)
    tags = tuple(dict.fromkeys(tag for each in text.split("||") if (tag := trimmed(each))))
    if not tags:
        raise SubscriptionError(
            f"the tag expression {in_quotes(text, 80)} of topic {in_quotes(topic, 80)} has no tag; "
            "write tags separated by ||, or *"
        )
    return Subscription(topic, text, TAG, tags, frozenset(map(java_hash, tags)), version)
