"""Dead letters: their numbers, a selection of them, and their places."""

from typing import NamedTuple

from cometmq.client.admin.absent import AbsentBroker
from cometmq.codec.properties import encode_properties
from cometmq.codec.sql92 import sql92_filter
from cometmq.model import properties as keys_of
from cometmq.model.message import StoredMessage
from cometmq.model.message_json import message_json
from cometmq.model.names import dead_letter_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.total import Total

# Property of a copy: the place of the message that it is a copy of.
REPLAY_OF = "REPLAY_OF"


class DeadLetterCount(NamedTuple):
    """The number of dead letters of a group.

    Attributes:
        letters: Known number of them: from `list` all that are stored, from `waiting` those that were not replayed.
        last_ms: Store time of the latest one, ms since 1970; 0 if unknown.
        absent: Brokers that may have more of them but do not answer or have left.
        first_ms: Store time of the first one, ms since 1970; 0 if unknown or not queried.
        uncounted: Other reasons why there may be more, for example that the user may not read them.
    """

    group: str
    letters: int
    last_ms: int
    absent: tuple[AbsentBroker, ...] = ()
    first_ms: int = 0
    uncounted: tuple[str, ...] = ()

    @property
    def total(self) -> Total:
        """The known number of dead letters (`letters`), with the reasons why it may be larger."""
        return Total(self.letters, self.unknown)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Reasons why there may be more: those in `uncounted`, and the brokers in `absent`."""
        return (*self.uncounted, *map(str, self.absent))


class DeadLetterStats(NamedTuple):
    """The selected dead letters of a group that came from the same topic after the same number of retries.

    Attributes:
        origin: Original topic; None if it was not recorded.
        tries: Number of redeliveries before the group gave up.
        letters: Number of these dead letters.
        first_ms: Time of the first one, ms since 1970.
        last_ms: Time of the last one, ms since 1970.
    """

    origin: str | None
    tries: int
    letters: int
    first_ms: int
    last_ms: int


class LetterOrigin(NamedTuple):
    """The JSON of a dead letter in addition to that of any message.

    Attributes:
        origin: Its original topic; None if it is not recorded.
    """

    origin: str | None


class DeadLetterFilter(NamedTuple):
    """A selection of dead letters by SQL92 expression, key and time.

    Attributes:
        sql: SQL92 expression over their properties; empty: all.
        key: Key of the message; empty: all.
        since_ms: Only those that became dead letters at or after this time, ms since 1970.
        until_ms: Only those that became dead letters before this time, ms since 1970; None: no limit.
    """

    sql: str = ""
    key: str = ""
    since_ms: int = 0
    until_ms: int | None = None

    def takes(self, letter: StoredMessage) -> bool:
        """Return whether a dead letter is selected; may raise ExpressionError if `sql` is invalid."""
        if self.key and self.key not in letter.keys:
            return False
        if not self.takes_time(letter.stored_ms):
            return False
        return not self.sql or sql92_filter(self.sql).matches(
            encode_properties(letter.properties)
        )

    def takes_time(self, stored_ms: int) -> bool:
        """Return whether a dead letter stored at a time, ms since 1970, is selected as far as its time decides."""
        return self.since_ms <= stored_ms and (
            self.until_ms is None or stored_ms < self.until_ms
        )


def place_of(letter: StoredMessage, group: str) -> str:
    """Return the place of a dead letter, "topic:broker:queue:offset", as in the property REPLAY_OF of its copies."""
    return place_text(queue_of(letter, group), letter.queue_offset)


def place_text(queue: MessageQueue, offset: int) -> str:
    """Return a place in a queue as text, "topic:broker:queue:offset"."""
    return f"{queue.topic}:{queue.broker_name}:{queue.queue_id}:{offset}"


def dead_letter_origin(letter: StoredMessage) -> str | None:
    """Return the original topic of a dead letter, the default target of a replay; None if it is not recorded."""
    properties = letter.properties
    return properties.get(keys_of.DLQ_ORIGIN_TOPIC) or properties.get(keys_of.RETRY_TOPIC)


def dead_letter_json(letter: StoredMessage) -> dict[str, object]:
    """Return a dead letter as a dict of JSON values: the fields of any message, and its original topic."""
    return {**message_json(letter), **LetterOrigin(dead_letter_origin(letter))._asdict()}


def queue_of(letter: StoredMessage, group: str) -> MessageQueue:
    """Return the queue of a dead letter in the dead-letter topic of its group."""
    return MessageQueue(
        dead_letter_topic(group), letter.queue.broker_name, letter.queue.queue_id
    )
