"""The demo, run as its user runs it."""

from pathlib import Path

import pyarrow.parquet
import pytest

from tests.support.programs import run_program

ROOT = Path(__file__).parents[2]
LIMIT_S = 180  # What `make demo` may take after the set-up, on two cores.


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 30)
def test_the_demo_ends_with_the_equal_result(tmp_path):
    make = ("make", "--no-print-directory", "demo", f"ARGS=--out {tmp_path / 'out'}")
    done = run_program(*make, cwd=ROOT, seconds=LIMIT_S)
    verdict = next(line for line in done.stdout.splitlines() if "EQUAL" in line)
    assert verdict.startswith("EQUAL: 336,776 of 336,776 flights in 207 groups")
    assert "16 carrier summaries sent back" in done.stdout
    table = pyarrow.parquet.read_table(tmp_path / "out" / "delays.parquet")
    assert sum(table["flights"].to_pylist()) == 336_776
    assert (tmp_path / "out" / "delays.png").stat().st_size > 10_000


def test_a_difference_is_found_and_named():
    from examples.flights.table import Delays, differences

    right = {("AA", 5): Delays(3, 2, 1.5, 9.0), ("AA", 6): Delays(1, 0, None, None)}
    assert differences(dict(right), right) == []
    wrong = {("AA", 5): Delays(3, 2, 1.5, 9.0 + 1e-6), ("UA", 7): Delays(1, 1, 0.0, 0.0)}
    assert [line.split(":")[0] for line in differences(wrong, right)] == [
        "AA at 5",
        "AA at 6",
        "UA at 7",
    ]
