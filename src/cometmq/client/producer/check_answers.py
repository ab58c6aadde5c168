"""Answers to transaction checks for half messages with a certain property, by a function that knows the outcome."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from cometmq.client.api.transactions import TransactionApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.producer.producer_member import ProducerMember
from cometmq.client.producer.transactions import TransactionState
from cometmq.client.user_calls import call_user
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.transaction import CheckTransaction
from cometmq.codec.record import decode_record
from cometmq.codec.remoting import Command
from cometmq.model import properties as keys_of
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CometError
from cometmq.model.names import HALF_TOPIC
from cometmq.net.channel import Channel
from cometmq.net.tasks import Tasks

log = logging.getLogger(__name__)


class CheckedHalfMessage(NamedTuple):
    """A half message that a broker checks.

    Attributes:
        broker_name: Name of the broker that stores the half message; empty if the broker does not say.
        properties: Properties of the message.
        age_ms: Difference between this machine's time and the producer's when it made the message, ms.
    """

    broker_name: str
    properties: dict[str, str]
    age_ms: int


HalfJudge = Callable[[CheckedHalfMessage], TransactionState]


class CheckAnswers(ProducerMember):
    """The membership of an encoded producer that answers transaction checks.

    Args:
        group: Producer group of the half messages.
        instance: Provides connections and the clock.
        mark: Name of a property; only checks of half messages with this property are answered.
        judge: Returns the outcome of a half message; called in a thread. After an exception there is no answer.
    """

    def __init__(
        self, group: str, instance: ClientInstance, mark: str, judge: HalfJudge
    ) -> None:
        super().__init__(group)
        self._instance = instance
        self._mark = mark
        self._judge = judge
        self._api = TransactionApi(instance, group)
        self._tasks = Tasks(f"{group} checks")
        self.takers[RequestCode.CHECK_TRANSACTION_STATE] = self._take

    def topics(self) -> list[str]:
        """Return a list with the topic of half messages, so that the masters in its route get heartbeats."""
        return [HALF_TOPIC]

    async def close(self) -> None:
        """Cancel the answers in progress; a `judge` that runs in a thread continues, but its outcome is not sent."""
        await self._tasks.close()

    def _take(self, command: Command, channel: Channel) -> bool:
        properties = decode_record(command.body).properties()
        if properties.get(keys_of.PRODUCER_GROUP) != self.group or self._mark not in properties:
            return False
        self._tasks.spawn(self._answer(command, channel), "check")
        return True

    async def _answer(self, command: Command, channel: Channel) -> None:
        asked = decode_fields(CheckTransaction, command.fields)
        record = decode_record(command.body)
        age_ms = self._instance.clock.now_ms() - record.born_timestamp
        half = CheckedHalfMessage(asked.broker_name or "", record.properties(), age_ms)
        try:
            state = await call_user(self._judge, half)
            self._api.answer_check(channel, asked, state, asked.msg_id or "")
        except (CometError, OSError, ValueError) as error:
            log.warning(
                "The check of transaction %s could not be answered, its broker will repeat it: %s",
                asked.msg_id,
                error,
            )
