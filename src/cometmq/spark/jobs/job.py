"""Definition of a Spark job of `cometmq pipeline`, and its report."""

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
    """Result of a job, or of its dry run.

    Attributes:
        counts: Numbers by name: rows, bytes, files; for a job that continues over several runs, their total.
        this_run: Part of `counts` that this run added, without states such as "keys"; None if it is not known.
        columns: Column names, if the result is a table.
        rows: Rows of the table.
        findings: Problems, one line each; with any, the exit status is 1.
        notes: Information for the user, one line each.
    """

    counts: dict[str, int] = field(default_factory=dict)
    this_run: dict[str, int] | None = field(default=None, kw_only=True)
    columns: Sequence[str] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of_table(cls, frame: DataFrame, **counts: int) -> "Report":
        """Collect a small data frame into a report with its rows; raise SettingsError for a time that Python cannot hold."""
        try:
            rows = [tuple(row) for row in frame.collect()]
        except PySparkException:
            raise
        except (
            ValueError,
            OverflowError,
        ) as error:  # Python's times have the years 1 to 9999.
            raise SettingsError(
                f"the result has a time outside Python's range ({error}): convert it to text with CAST(… AS STRING)"
            ) from error
        return cls(counts={"rows": len(rows), **counts}, columns=frame.columns, rows=rows)

    @property
    def summary(self) -> str:
        """Counts as one line: "600 rows", "This run 100 rows; in all 600 rows", or "nothing to do" without counts."""
        counts = _texts(self.counts) or "nothing to do"
        if self.this_run is None or self.this_run.items() <= self.counts.items():
            return counts
        return f"This run {_texts(self.this_run)}; in all {counts}"

    @property
    def status(self) -> ExitStatus:
        """Exit status of the command: 1 if there are findings, otherwise 0."""
        return ExitStatus.FOUND if self.findings else ExitStatus.WELL


def _texts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


Options = TypeVar("Options", bound=JobOptions)


@dataclass(frozen=True)
class Job(Generic[Options]):
    """A Spark job of `cometmq pipeline`: its command, its options and the function that runs it.

    Attributes:
        name: Command name; two words for a job of a family ("dlq replay").
        options: Class of its options.
        run: Function that runs it; the first paragraph of its docstring is the command's help.
    """

    name: str
    options: type[Options]
    run: Callable[[SparkSession, Options], Report]

    @property
    def help(self) -> str:
        """Help text of the command: the first paragraph of the docstring of `run`."""
        return (inspect.getdoc(self.run) or "").partition("\n\n")[0].replace("\n", " ")
