"""Metrics of this process and its build, for the page of any program: names and units of Prometheus' client libraries."""

import contextlib
import os
import resource
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from cometmq.codec.metrics_text import COUNTER, GAUGE, Metric, Sample, Source
from cometmq.process.build import this_build
from cometmq.process.descriptors import limit

VITALS = {
    "process_cpu_seconds_total": Metric(
        COUNTER, (), "Processor time of the process, user and system, s."
    ),
    "process_resident_memory_bytes": Metric(GAUGE, (), "Resident memory of the process."),
    "process_open_fds": Metric(GAUGE, (), "Open file descriptors."),
    "process_max_fds": Metric(GAUGE, (), "Largest number of open file descriptors."),
    "process_start_time_seconds": Metric(
        GAUGE, (), "When the process was started, seconds since 1970."
    ),
    "cometmq_build_info": Metric(
        GAUGE,
        ("version", "python", "kernel"),
        "1, with the versions of CometMQ and Python, and whether the kernel is compiled or plain.",
    ),
}
# Only Linux has these files.
_MEMORY, _PROCESS, _SYSTEM, _DESCRIPTORS = map(
    Path, ("/proc/self/statm", "/proc/self/stat", "/proc/stat", "/proc/self/fd")
)
_START_FIELD = 19  # Field 22 of /proc/self/stat (proc(5)), counted from the one after the name.


def vital_sources() -> Mapping[str, Source]:
    """Return the sources of the metrics in `VITALS`, by name; some have no sample where the system does not report it."""
    return {
        "process_cpu_seconds_total": lambda: [((), _cpu_seconds())],
        "process_resident_memory_bytes": _resident_memory,
        "process_open_fds": _open_descriptors,
        "process_max_fds": lambda: [((), limit())],
        "process_start_time_seconds": _start_time,
        "cometmq_build_info": _this_build,
    }


def _this_build() -> list[Sample]:
    version, kernel, python = this_build()
    return [((version, python, kernel), 1)]


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return round(used.ru_utime + used.ru_stime, 3)


def _resident_memory() -> Iterator[Sample]:
    with contextlib.suppress(OSError):
        yield (), int(_MEMORY.read_text().split(" ")[1]) * resource.getpagesize()


@cache
def _start_time() -> list[Sample]:
    with contextlib.suppress(OSError):
        ticks = int(_PROCESS.read_text().rpartition(") ")[2].split(" ")[_START_FIELD])
        for line in _SYSTEM.read_text().split("\n"):
            if line.startswith("btime "):
                return [((), int(line.split(" ")[1]) + ticks / os.sysconf("SC_CLK_TCK"))]
    return []


def descriptors_in_use() -> int | None:
    """Return the number of open descriptors, or None if the system does not report it."""
    with contextlib.suppress(OSError):
        # Newer kernels report the number as the size.
        return _DESCRIPTORS.stat().st_size or sum(1 for _ in _DESCRIPTORS.iterdir())
    return None


def _open_descriptors() -> Iterator[Sample]:
    used = descriptors_in_use()
    if used is not None:
        yield (), used
