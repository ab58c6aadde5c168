"""Commit and abort of a transactional batch on the Spark driver; both can be killed at any point and run again.

The ledger decides. Without a ledger entry nothing is committed; an unfinished entry lists exactly the messages
that any process that finds it must commit (docs/design/0022-spark-sink.md).
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic, sleep

from cometmq import TransactionState
from cometmq.connect import EncodedProducer
from cometmq.model.errors import BrokerRefused, CometError
from cometmq.model.text import in_quotes, plural
from cometmq.spark.sink.half_messages import BatchKey, HalfMessages, count_of
from cometmq.spark.sink.ledger import COMMITTING, Ledgers
from cometmq.spark.sink.settings import SinkSettings

log = logging.getLogger(__name__)

# Pauses between checks of the broker's index; longer than the index lags behind the log.
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 1.0, 5.0
_NAMED_MAX = 3  # Maximum number of ids in an error message.


@dataclass
class BatchCommitter:
    """Committer of transactional batches on the driver: commits or aborts a batch as its ledger decides."""

    ledgers: Ledgers
    resolver: EncodedProducer
    settings: SinkSettings
    now_ms: Callable[[], int]

    def commit(
        self, key: BatchKey, half_messages: Sequence[HalfMessages], *, born_ms: int
    ) -> None:
        """Make the half messages of a batch visible to consumers, and record that in the ledger.

        If the ledger has the batch already, commit only those listed there, if not done yet, and roll back other given ones.

        Args:
            key: Key of the batch.
            half_messages: Half messages that its tasks have stored.
            born_ms: Start of its first task, ms since 1970; no half message is older.

        Raises:
            CometError, OSError: The batch took too long, so nothing is committed; its ledger cannot be used; or it is not
                certain that all are committed, and running the batch again may complete it.
        """
        entry = self.ledgers.read(key)
        if entry is None:
            self._check_age(key, born_ms)
            self.ledgers.begin(key, self.settings.group, half_messages)
            self._settle(key, half_messages)
            self.ledgers.finish(key)
            return
        if entry.state == COMMITTING:
            log.warning(
                "The outcome of batch %s was already recorded, with %d %s",
                key,
                entry.rows,
                plural(entry.rows, "message"),
            )
            self._settle(key, entry.half_messages, is_repeated=True)
            self.ledgers.finish(key)
        self._roll_back(_without(half_messages, entry.half_messages))

    def abort(self, key: BatchKey, half_messages: Sequence[HalfMessages]) -> None:
        """Roll back a batch's half messages, except those in its ledger: Spark also aborts after a failed commit.

        Brokers' errors are only logged. Creates the query's ledger folder, so that their checks can roll back what is left.
        """
        self.ledgers.make_folder(key.query)
        entry = self.ledgers.read(key)
        self._roll_back(
            half_messages if entry is None else _without(half_messages, entry.half_messages)
        )

    def _check_age(self, key: BatchKey, born_ms: int) -> None:
        age_ms = self.now_ms() - born_ms
        if age_ms * 2 > self.settings.immunity_ms:
            raise CometError(
                f"batch {key} took {age_ms} ms, but brokers check its messages after "
                f"{self.settings.immunity_ms} ms; raise 'transactionImmunity' or make batches smaller"
            )

    def _settle(
        self, key: BatchKey, half_messages: Sequence[HalfMessages], *, is_repeated: bool = False
    ) -> None:
        """Commit the half messages; before each attempt but the first, query the brokers' indexes to avoid repeats.

        With `is_repeated` also before the first, because an earlier run may have committed them. Raises CometError if a
        broker refuses one that its index lacks, or if some are not known to be committed within `deliveryTimeoutMs`.
        """
        deadline = monotonic() + self.settings.delivery_timeout_ms / 1000
        told = _CommitAnswers()
        unsure = list(half_messages)
        if not is_repeated:
            self._commit(unsure, told, is_late=False)
            unsure = told.unacknowledged(unsure)
        pause = _PAUSE_SECONDS
        while unsure:
            missing, unknown = self._look(unsure)
            told.refuse_lost(key, missing)
            unsure = missing + unknown
            if unsure and monotonic() > deadline:
                raise _not_sure(key, unsure)
            self._commit(told.unacknowledged(missing), told, is_late=True)
            if unsure:
                sleep(pause)
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _commit(
        self, half_messages: Sequence[HalfMessages], told: "_CommitAnswers", *, is_late: bool
    ) -> None:
        for each in half_messages:
            answers = self.resolver.end(each.messages(), TransactionState.COMMIT, late=is_late)
            told.note(each, answers)

    def _look(
        self, half_messages: Sequence[HalfMessages]
    ) -> tuple[list[HalfMessages], list[HalfMessages]]:
        """Return the half messages that brokers do not show as committed, and those whose brokers cannot be queried."""
        missing, unknown = [], []
        for each in half_messages:
            try:
                is_there = self.resolver.committed(each.messages())
            except CometError as error:
                log.warning("Broker %s cannot list committed messages: %s", each.broker, error)
                unknown.append(each)
                continue
            wanted = [index for index, there in enumerate(is_there) if not there]
            if wanted:
                missing.append(each.only(wanted))
        return missing, unknown

    def _roll_back(self, half_messages: Sequence[HalfMessages]) -> None:
        """Roll back half messages; errors of brokers are only logged: their transaction checks can still roll these back."""
        for each in half_messages:
            errors = self.resolver.end(each.messages(), TransactionState.ROLLBACK, late=True)
            failed = [error for error in errors if error is not None]
            if failed:
                log.warning(
                    "%d of %d half messages on %s could not be rolled back, the broker's check will do it: %s",
                    len(failed), len(errors), each.broker, failed[0],
                )  # fmt: skip


class _CommitAnswers:
    """Brokers' answers to the commits of a batch's half messages: which were acknowledged, and which refused."""

    def __init__(self) -> None:
        self._acknowledged: set[tuple[str, str]] = set()
        self._refused: dict[tuple[str, str], CometError] = {}

    def note(self, half_messages: HalfMessages, answers: Sequence[CometError | None]) -> None:
        for message_id, error in zip(half_messages.ids, answers, strict=True):
            if error is None:
                self._acknowledged.add((half_messages.broker, message_id))
            elif isinstance(error, BrokerRefused):
                self._refused[half_messages.broker, message_id] = error

    def unacknowledged(self, half_messages: Sequence[HalfMessages]) -> list[HalfMessages]:
        """Return those of the given half messages whose commit no broker has acknowledged."""
        found = [
            each.only(
                index
                for index, message_id in enumerate(each.ids)
                if (each.broker, message_id) not in self._acknowledged
            )
            for each in half_messages
        ]
        return [each for each in found if each.ids]

    def refuse_lost(self, key: BatchKey, missing: Sequence[HalfMessages]) -> None:
        """Raise CometError if a broker refused to commit a half message that is missing among the committed ones."""
        for each in missing:
            for message_id in each.ids:
                error = self._refused.get((each.broker, message_id))
                if error is not None:
                    raise CometError(
                        f"batch {key}: {each.broker} does not commit {message_id} for "
                        f"{in_quotes(each.topic)}: {error}. If it was discarded after too many checks, "
                        "`cometmq transactions resume` restores it; then run the batch again"
                    ) from error


def _without(
    half_messages: Sequence[HalfMessages], listed: Sequence[HalfMessages]
) -> list[HalfMessages]:
    """Return the half messages that a ledger entry does not list."""
    kept = {(each.broker, message_id) for each in listed for message_id in each.ids}
    found = [
        each.only(
            index
            for index, message_id in enumerate(each.ids)
            if (each.broker, message_id) not in kept
        )
        for each in half_messages
    ]
    return [each for each in found if each.ids]


def _not_sure(key: BatchKey, unsure: Sequence[HalfMessages]) -> CometError:
    first, count = unsure[0], count_of(unsure)
    return CometError(
        f"batch {key}: {count} {plural(count, 'message is', 'messages are')} not known to be committed, the first "
        f"{', '.join(first.ids[:_NAMED_MAX])} for {in_quotes(first.topic)} on {first.broker}; run it again "
        "when that broker is running and its index (messageIndexEnable) is on"
    )
