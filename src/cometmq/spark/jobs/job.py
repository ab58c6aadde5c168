"""A job, and the report that it gives back."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from cometmq.model.errors import SettingsError
from cometmq.model.exit_status import ExitStatus
from cometmq.spark.jobs.options import JobOptions


@dataclass
class Report:
    """The result of a job, or of its dry run.

    Attributes:
        counts: how much of what: rows, bytes, files; of a job that goes on, all its runs together.
        this_run: what of `counts` this run added; None where a job has no runs before.
        columns: the names of a table's columns, where the answer is a table.
        rows: its rows.
        findings: what is not as it should be, a line each; status 1 when there is one.
        notes: what its reader should know, a line each.
    """

    counts: dict[str, int] = field(default_factory=dict)
    this_run: dict[str, int] | None = field(default=None, kw_only=True)
    columns: Sequence[str] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of_table(cls, frame: DataFrame, **counts: int) -> "Report":
        """The rows of a small data frame, collected.

        Raises:
            SettingsError: an answer that Python has no value for.
        """
        try:
            rows = [tuple(row) for row in frame.collect()]
        except PySparkException:
            raise
        except (
            ValueError,
            OverflowError,
        ) as error:  # Its times are those of the years 1 to 9999.
            raise SettingsError(
                f"the answer has a time that Python cannot hold ({error}): make it text, as with CAST(… AS STRING)"
            ) from error
        return cls(counts={"rows": len(rows), **counts}, columns=frame.columns, rows=rows)

    @property
    def summary(self) -> str:
        """The counts as one line: "600 rows", "This run 100 rows; in all 600 rows", "nothing to do"."""
        counts = _texts(self.counts) or "nothing to do"
        if self.this_run is None or self.this_run.items() <= self.counts.items():
            return counts
        return f"This run {_texts(self.this_run)}; in all {counts}"

    @property
    def status(self) -> ExitStatus:
        """The exit status of the command."""
        return ExitStatus.FOUND if self.findings else ExitStatus.WELL


def _texts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


Options = TypeVar("Options", bound=JobOptions)


@dataclass(frozen=True)
class Job(Generic[Options]):
    """A job, as the catalogue knows it.

    Attributes:
        name: its command; two words for one of a family ("dlq replay").
        options: what it takes.
        run: does it; its docstring is the command's help.
    """

    name: str
    options: type[Options]
    run: Callable[[SparkSession, Options], Report]

    @property
    def help(self) -> str:
        """The first paragraph of what `run` says about itself."""
        return (inspect.getdoc(self.run) or "").partition("\n\n")[0].replace("\n", " ")
