"""Records what a Java proxy answers to the calls of `tests.support.grpc_calls`.

Usage: python -m tests.interop.record_grpc      writes tests/golden/grpc/java-5.3.3.json
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.interop import reference
from tests.support import grpc_calls
from tests.support.processes import free_port

RECORDED = reference.HERE.parent / "golden" / "grpc" / f"java-{reference.VERSION}.json"


class Proxied(NamedTuple):
    """A broker with a gRPC proxy: the addresses of its nameserver and of the proxy."""

    nameserver: str
    grpc: str


@contextmanager
def java_proxied(folder: Path, settings: Mapping[str, object]) -> Iterator[Proxied]:
    """A Java nameserver, and a Java proxy in local mode with a broker of these settings."""
    names, port = reference.nameserver(folder / "nameserver"), free_port()
    proxy = reference.proxy(folder / "proxy", names.address, grpc_port=port, settings=settings)
    with reference.served(names, proxy):
        yield Proxied(names.address, f"127.0.0.1:{port}")


def main() -> int:
    """Record the answers anew."""
    with (
        tempfile.TemporaryDirectory() as folder,
        java_proxied(Path(folder), grpc_calls.BROKER_SETTINGS) as place,
    ):
        grpc_calls.prepare(place.nameserver)
        answers = grpc_calls.answers_of(place.grpc)
    lines = (f"{json.dumps(name)}: {json.dumps(said)}" for name, said in answers.items())
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(answers)} answers in {RECORDED}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
