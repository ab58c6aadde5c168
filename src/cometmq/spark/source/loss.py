"""Reporting of messages that a Spark read has lost: an error, or a warning with the number of lost messages, if known."""

import logging

from cometmq.model.errors import CometError
from cometmq.model.text import plural

log = logging.getLogger(__name__)


class DataLossError(CometError):
    """Raised if messages that should be read no longer exist, unless `failOnDataLoss` is false."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Read them from an archive or a replica if there is one; with "
            "failOnDataLoss=false the read continues with the remaining messages"
        )


class RowLosses:
    """Counter of messages known to be lost (`rows`), before any filter; with `is_failure` a loss is an error."""

    def __init__(self, *, is_failure: bool) -> None:
        self._is_failure = is_failure
        self._said: set[str] = set()
        self.rows = 0

    def report(self, what: str, rows: int) -> None:
        """Report lost messages: with `is_failure` raise DataLossError, otherwise count and log them, once per text."""
        if self._is_failure:
            raise DataLossError(what)
        if what in self._said:
            return
        self._said.add(what)
        self.rows += rows
        log.warning(
            "%s. failOnDataLoss is false: the read continues with the remaining messages; %d %s lost so far",
            what,
            self.rows,
            plural(self.rows, "message"),
        )
