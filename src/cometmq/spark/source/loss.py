"""Messages that should be read and are gone: an error, or a warning with a number."""

import logging

from cometmq.model.errors import CometError
from cometmq.model.text import plural

log = logging.getLogger(__name__)


class DataLossError(CometError):
    """Messages that should be read are gone."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Read them from an archive or a replica if there is one; with "
            "failOnDataLoss=false the read goes on with what there is"
        )


class RowLosses:
    """The messages that a task or a query has lost.

    Attributes:
        rows: messages that are gone; with a filter some of them would not have been read.

    Args:
        is_failure: a loss is an error.
    """

    def __init__(self, *, is_failure: bool) -> None:
        self._is_failure = is_failure
        self._said: set[str] = set()
        self.rows = 0

    def report(self, what: str, rows: int) -> None:
        """Report that messages are gone; the same words are counted once.

        Raises:
            DataLossError: where that is to be an error.
        """
        if self._is_failure:
            raise DataLossError(what)
        if what in self._said:
            return
        self._said.add(what)
        self.rows += rows
        log.warning(
            "%s. failOnDataLoss is false: going on with what there is; %d %s lost so far",
            what,
            self.rows,
            plural(self.rows, "message"),
        )
