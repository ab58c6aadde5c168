"""Spark jobs as streams: process micro-batches up to the present end of the source, or forever.

Spark records the input of a micro-batch in its checkpoint before running it. After a kill the same batch is
repeated with the same number, so output written under that number is not duplicated.
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
from cometmq.spark.jobs.options import JobOptions, option
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.watching import StreamWatch

# Spark delivers its counts within milliseconds of a write, but through an event queue that drops events when full.
_COUNTS_WITHIN_S = 60.0

WriteBatch = Callable[[DataFrame, int], dict[str, int]]
"""Writes a micro-batch with a number; gives how many "rows" and "bytes" it wrote."""


@dataclass(frozen=True, kw_only=True)
class FlowOptions(JobOptions):
    """Options of jobs that process messages in micro-batches, up to the present end of the source or forever."""

    follow: bool = option("Continue with new messages until Ctrl-C.", False, is_what=False)
    trigger: str = option(
        "With --follow: interval between micro-batches.", "10 seconds", is_what=False
    )
    batch_rows: int = option("Maximum messages in a micro-batch.", 500_000, is_what=False)
    rate: int = option("Maximum number of messages per second; 0: no limit.", 0, is_what=False)

    @property
    def rows_max(self) -> int:
        """Limit for the messages of a micro-batch of topics: `batch_rows`, but at most those of one second at the `rate`.

        Raises:
            SettingsError: A limit is out of range.
        """
        if self.batch_rows < 1:
            raise SettingsError(f"--batch-rows {self.batch_rows}: it must be at least 1")
        if self.rate < 0:
            raise SettingsError(f"--rate {self.rate}: it must be at least 0 (no limit)")
        return min(self.batch_rows, self.rate) if self.rate else self.batch_rows


def drain(frame: DataFrame, run: Run, options: FlowOptions, write: WriteBatch) -> None:
    """Write the micro-batches of a stream with `write`, up to its present end, or with `follow` until Ctrl-C.

    Raises:
        StreamingQueryException: The stream failed; the next run continues with the unfinished micro-batch.
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
    """Raised if Spark wrote a micro-batch but did not deliver its row counts in time; the next run repeats the batch."""


class WrittenCounts:
    """Numbers of rows and bytes that Spark observes while it writes a batch, available afterwards."""

    def __init__(self, seen: Observation) -> None:
        self._seen = seen

    def get(self, within_s: float = _COUNTS_WITHIN_S) -> dict[str, int]:
        """Return the counts "rows" and "bytes" of the written batch; CountsLost if Spark has none after `within_s` seconds."""
        found: Future[dict[str, int]] = Future()

        def wait() -> None:
            try:
                found.set_result(self._seen.get)
            except BaseException as error:  # noqa: BLE001 - The caller raises it.
                found.set_exception(error)

        # Wait in a thread, because Spark's own call has no timeout.
        Thread(target=wait, name="job-counts", daemon=True).start()
        try:
            return dict(found.result(within_s))
        except TimeoutError:
            raise CountsLost(
                f"Spark wrote a micro-batch but did not report its number of rows within {within_s:g} s; run the same "
                "command again to continue with this micro-batch"
            ) from None


def counted(batch: DataFrame) -> tuple[DataFrame, WrittenCounts]:
    """Return a batch that counts its rows and bytes (sum of `storeSize`, or 0) while it is written, and its WrittenCounts."""
    seen = Observation()
    size = f.sum("storeSize") if "storeSize" in batch.columns else f.lit(0)
    metrics = f.count(f.lit(1)).alias("rows"), f.coalesce(size, f.lit(0)).alias("bytes")
    return batch.observe(seen, *metrics), WrittenCounts(seen)


class RateLimit:
    """Limit on the mean rate of a whole run, in rows per second (0: none), kept by waiting between micro-batches."""

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
        """Count processed rows, and wait until the rate allows more."""
        self._rows += rows
        if self._rate:
            ahead = self._rows / self._rate - (self._clock() - self._began)
            if ahead > 0:
                self._pause(ahead)
