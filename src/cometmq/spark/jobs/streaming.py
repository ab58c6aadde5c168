"""A job as a stream: micro-batch after micro-batch to where the source ended, or for ever.

Spark writes what a micro-batch reads to its checkpoint before it runs it. So the same batch comes
again after a kill, with the same number; what is written under that number is written once.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from time import monotonic, sleep

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.observation import Observation

from cometmq.model.errors import CometError, SettingsError
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.options import JobOptions
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.watching import StreamWatch

# Spark delivers what it counted within milliseconds of a write, by a queue of events that loses some when it is full.
_COUNTS_WITHIN_S = 60.0

WriteBatch = Callable[[DataFrame, int], dict[str, int]]
"""Writes a micro-batch with a number; gives how many "rows" and "bytes" it wrote."""


@dataclass(frozen=True, kw_only=True)
class FlowOptions(JobOptions):
    """Options of all jobs that move messages.

    Attributes:
        follow: go on for ever instead of ending where the source ended at the beginning.
        trigger: how long a micro-batch gathers with `follow`, as Spark writes it.
        batch_rows: the most messages of a micro-batch.
        rate: the most messages a second; 0: as fast as it goes.
    """

    follow: bool = option("Go on with what comes; Ctrl-C ends it.", False, is_what=False)
    trigger: str = option("With --follow: a micro-batch so often.", "10 seconds", is_what=False)
    batch_rows: int = option("The most messages of a micro-batch.", 500_000, is_what=False)
    rate: int = option("The most messages a second; 0: no limit.", 0, is_what=False)

    @property
    def rows_max(self) -> int:
        """The most messages of a micro-batch; a rate is kept second by second.

        Raises:
            SettingsError: it would be none.
        """
        if self.batch_rows < 1:
            raise SettingsError(f"--batch-rows {self.batch_rows}: at least 1")
        if self.rate < 0:
            raise SettingsError(f"--rate {self.rate}: at least 0, which is no limit")
        return min(self.batch_rows, self.rate) if self.rate else self.batch_rows


def drain(frame: DataFrame, run: Run, options: FlowOptions, write: WriteBatch) -> None:
    """Write all micro-batches of a stream; Ctrl-C is the normal end of one that follows.

    Args:
        frame: the stream.
        run: what counts, and where the checkpoint lies.
        options: how.
        write: writes one.

    Raises:
        StreamingQueryException: a micro-batch failed; the next run begins with it.
    """
    spark, limit = frame.sparkSession, RateLimit(options.rate)

    def write_and_count(batch: DataFrame, number: int) -> None:
        counts = write(batch, number)
        run.count_batch(number, counts)
        limit.wait(counts.get("rows", 0))

    name = run.manifest.id
    stream = frame.writeStream.queryName(name).option("checkpointLocation", run.checkpoint)
    stream = stream.foreachBatch(write_and_count)
    stream = (
        stream.trigger(processingTime=options.trigger)
        if options.follow
        else stream.trigger(availableNow=True)
    )
    watch = StreamWatch(name, run.progress)
    spark.streams.addListener(watch)
    query = stream.start()
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        if not options.follow:
            raise
    finally:
        query.stop()
        spark.streams.removeListener(watch)


class CountsLost(CometError):
    """Raised where Spark wrote a micro-batch and never said how many rows it had."""


class WrittenCounts:
    """The counts of a batch that is written, once it is.

    Args:
        seen: what Spark counts.
    """

    def __init__(self, seen: Observation) -> None:
        self._seen = seen

    def get(self, within_s: float = _COUNTS_WITHIN_S) -> dict[str, int]:
        """Return the counts of the written batch: "rows" and "bytes".

        Raises:
            CountsLost: Spark does not deliver them; the micro-batch comes again in the next run.
        """
        found: Future[dict[str, int]] = Future()

        def wait() -> None:
            try:
                found.set_result(self._seen.get)
            except BaseException as error:  # noqa: BLE001 - The caller raises it.
                found.set_exception(error)

        # A thread, since Spark's own wait has no end.
        Thread(target=wait, name="job-counts", daemon=True).start()
        try:
            return dict(found.result(within_s))
        except TimeoutError:
            raise CountsLost(
                f"Spark wrote a micro-batch and did not say within {within_s:g} s how many rows it had; run the same "
                "command again: it goes on with this micro-batch"
            ) from None


def counted(batch: DataFrame) -> tuple[DataFrame, WrittenCounts]:
    """A batch that counts its rows and their stored bytes while it is written."""
    seen = Observation()
    size = f.sum("storeSize") if "storeSize" in batch.columns else f.lit(0)
    metrics = f.count(f.lit(1)).alias("rows"), f.coalesce(size, f.lit(0)).alias("bytes")
    return batch.observe(seen, *metrics), WrittenCounts(seen)


class RateLimit:
    """Keeps to a rate over a whole run by waiting between micro-batches.

    Args:
        rate: rows a second; 0: never waits.
        clock: seconds.
        pause: waits so many seconds.
    """

    def __init__(
        self,
        rate: int,
        *,
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], None] = sleep,
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._pause = pause
        self._began = clock()
        self._rows = 0

    def wait(self, rows: int) -> None:
        """Count rows that went out, and wait until the rate allows them."""
        self._rows += rows
        if self._rate:
            ahead = self._rows / self._rate - (self._clock() - self._began)
            if ahead > 0:
                self._pause(ahead)
