"""Measures Java, CometMQ and the floor in turn, three rounds in one session, and writes the tables.

Usage: python -m bench.run [--section broker|alone|columns|crowd|store|recovery|ha|failover|spark|spark-store|clients|cores|timed|operate|secure|face|unseen|grpc] [--rounds 3] [--seconds 8] [--systems java,cometmq,floor]
                           [--results FOLDER] [--dry]

Machines are noisy, so only ratios within one round mean something; the table shows their medians. Run
nothing else meanwhile.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import table
from bench.clients import client_rounds
from bench.cores_work import do_cores
from bench.crowd_work import do_crowd
from bench.failover_work import do_failover
from bench.grpc_work import do_grpc
from bench.ha_work import COPIED_BYTES, do_ha
from bench.instructions import count_columns, require_callgrind
from bench.operate_work import do_operate
from bench.queries import measure_queries
from bench.recovery_work import do_recovery
from bench.secure_work import do_secure
from bench.store_work import do_store
from bench.systems import COMETMQ, FLOOR, JAVA, running
from bench.timed import TIMED_MESSAGES, do_timed
from bench.unseen_work import do_unseen
from bench.work import do_all, do_alone, do_columns
from cometmq.kernel import WHY_PLAIN
from tests.interop.reference import VERSION, java

RESULTS = Path(__file__).resolve().parent / "results"


def machine() -> dict[str, Any]:
    """What ran it; figures of two machines must never be compared."""
    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    said = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "cores": os.cpu_count(),
        "processor": models[0] if models else platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": said.stderr.splitlines()[0],
        "rocketmq": VERSION,
        "commit": commit.stdout.strip(),
        "load_average": round(os.getloadavg()[0], 1),  # before it began: 0 on a quiet machine
        "when": datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds"),
    }


def main() -> int:
    """Run the rounds, write the results, and the tables from them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--section", choices=table.SECTIONS, help="only this one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=8, help="of load for each row")
    parser.add_argument("--rows", type=int, default=1_000_000, help="that Spark reads")
    parser.add_argument("--keys", type=int, default=10_000_000, help="of a table of changes")
    parser.add_argument(
        "--copied", type=int, default=COPIED_BYTES, help="that a slave catches up"
    )
    parser.add_argument("--faults", type=int, default=20, help="of each kind, by failover")
    parser.add_argument("--systems", default=",".join((JAVA, COMETMQ, FLOOR)))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--dry", action="store_true", help="do not touch bench/README.md")
    given = parser.parse_args()
    if WHY_PLAIN is not None:  # Its figures would be those of the plain Python, a fiftieth.
        sys.exit(f"{WHY_PLAIN}: `make setup` builds the kernel, then measure")
    for section in table.SECTIONS.values():
        if given.section in (None, section.name):
            measure(section, given)
    return 0


def measure(section: table.Section, given: argparse.Namespace) -> None:
    """All rounds of a section."""
    if section.name == "columns":
        require_callgrind()  # Not minutes later.
    results: dict[str, Any] = {"machine": machine(), "seconds": given.seconds, "rounds": []}
    if section.name in ("spark", "spark-store"):
        results["rows"] = given.rows
    if section.name == "face":
        results["keys"] = given.keys
    if section.name == "timed":
        results["messages"] = TIMED_MESSAGES
    for measured in rounds_of(section, given):
        results["rounds"].append(measured)
        given.results.mkdir(parents=True, exist_ok=True)
        path = given.results / section.results.name
        path.write_text(json.dumps(results, indent=1) + "\n")
    print(table.markdown(results, section))
    if not given.dry:
        table.write_readme(section, results)


def rounds_of(section: table.Section, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What was measured of each system, round by round."""
    if section.name == "spark":
        # Its systems are measured row by row in one session of Spark, which not everybody has.
        from bench.spark_work import spark_rounds

        yield from spark_rounds(given.rounds, rows=given.rows)
        return
    if section.name == "spark-store":
        from bench.spark_store import spark_store_rounds

        yield from spark_store_rounds(given.rounds, rows=given.rows)
        return
    if section.name == "clients":
        yield from client_rounds(given.rounds, seconds=given.seconds)
        return
    if section.name == "face":
        from bench.face_work import face_rounds

        with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
            yield from face_rounds(given.rounds, folder=Path(folder), keys=given.keys)
        return
    if section.name == "timed":
        yield {COMETMQ: {"timed": do_timed()}}  # Once: it waits for minutes.
        return
    for number in range(given.rounds):
        measured: dict[str, Any] = {}
        for name in given.systems.split(","):
            print(f"{section.name}: round {number + 1}, {name}", flush=True)
            with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
                measured[name] = do_section(section.name, name, Path(folder), number, given)
        yield measured


def do_section(
    section: str, name: str, folder: Path, number: int, given: argparse.Namespace
) -> dict[str, Any]:
    """One system's rows of one round."""
    simple = {
        "crowd": do_crowd, "operate": do_operate, "secure": do_secure, "cores": do_cores,
        "unseen": do_unseen, "grpc": do_grpc,
    }  # fmt: skip
    if (do := simple.get(section)) is not None:
        return do(name, folder, seconds=given.seconds)
    if section == "store":
        rows = do_store(name, folder, seconds=given.seconds)
        if number == 0 and name == COMETMQ:
            rows["query"] = measure_queries(folder / "queried")
        return rows
    if section == "recovery":
        return do_recovery(name, folder)
    if section == "ha":
        return do_ha(name, folder, seconds=given.seconds, copied=given.copied)
    if section == "failover":
        return do_failover(
            name, folder, seconds=given.seconds, faults=given.faults, copied=given.copied
        )
    counted: dict[str, Any] = {}
    if section == "columns" and name == COMETMQ:
        counted = count_columns(folder / "counted")
    with running(name, folder) as system:
        if section in ("alone", "columns"):
            rows_of = do_alone if section == "alone" else do_columns
            return counted | rows_of(system, seconds=given.seconds)
        return do_all(system, seconds=given.seconds, with_memory=number == 0)


if __name__ == "__main__":
    sys.exit(main())
