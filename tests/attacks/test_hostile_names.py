"""500 hostile names in every field of every request that names something: refused or harmless, at broker and nameserver.

They come from this machine without access control, so that nothing stops them at the gate. No file lies but where names that may be lie,
no connection ends, nothing tells of our insides, and both programs start again with what was taken. Requests 50, 51 and 53, which
write files of accounts, are asked in test_known_holes.py; 318 changes settings.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice, product
from pathlib import Path

import pytest

from tests.attacks.stranger import Stranger
from tests.fuzz.fitting import BROKER, NAMESERVER
from tests.support.frames import json_frame
from tests.support.processes import Program
from tests.support.programs import small_cluster

COUNT, AT_ONCE = 500, 100
FIELDS = 173  # Of a broker's requests 143, of a nameserver's 30: 86,500 requests.
ASIDE = {50, 51, 53, 318}
NAMING = {"topic", "group", "client", "id", "address", "broker", "cluster", "word", "expression_type"}  # fmt: skip
GOOD = {"topic": "orders", "group": "readers", "truth": "false", "perm": "6", "time": "1700000000000", "patience": "600000"}  # fmt: skip
UNKNOWN_CODE, BARRIER = 29_999, 1_999_999_999
# What is put in front of a name, what it is, and what stands behind it.
_BEFORE = ("", "../", "../../../../", "/", "\\\\?\\", "C:\\", "%2e%2e%2f", "~/", "file://", "%RETRY%../", "%DLQ%", "\u202e", " ", "$(", "`", "\0", "-", ".", "@", "\ufeff")  # fmt: skip
_NAMES = (
    "x",
    "etc/passwd",
    "CON",
    "aux.txt",
    "..",
    "名前",
    "a@b",
    "{{7*7}}",
    "'; --",
    "x" * 300,
)
_BEHIND = ("", "/", "\0", ".", "\n", "%00", "`", ")")
NAMES = list(
    islice(dict.fromkeys("".join(parts) for parts in product(_BEFORE, _NAMES, _BEHIND)), 0, None, 3)
)[:COUNT]  # fmt: skip
# What programs write by themselves, and directories and files of names that may be.
NAME = re.compile(r"[%|a-zA-Z0-9_.~-]{1,255}")
INSIDES = re.compile(rb"Traceback|Error\(|\.py\b|/site-packages/")


def test_there_are_so_many_names_and_each_is_another():
    assert len(NAMES) == len(set(NAMES)) == COUNT
    assert sum(1 for table in (BROKER, NAMESERVER) for _ in requests(table)) == FIELDS * COUNT


@pytest.mark.timeout(600)
def test_500_hostile_names_in_each_field_reach_no_path_and_end_nothing(tmp_path):
    with small_cluster(tmp_path) as (names, broker):
        outside = files_outside(tmp_path)
        assert ask_all(broker, BROKER) > COUNT * 100
        assert ask_all(names, NAMESERVER) > COUNT * 20
        for program in (broker, names):
            assert program.process is not None
            assert program.process.poll() is None
            said = program.log.read_text(errors="replace")
            assert "Traceback" not in said
        assert files_outside(tmp_path) - outside <= {"nameserver/kvConfig.json"}
        for path in (tmp_path / "broker" / "store").rglob("*"):
            assert NAME.fullmatch(path.name), path
            assert path.name not in {".", ".."}
        broker.stop()
        names.stop()
        with names.start(), broker.start(), Stranger(broker.address) as stranger:
            assert stranger.ask(28).code == 0


def ask_all(program: Program, table: Mapping[int, tuple[Mapping[str, str], object]]) -> int:
    """Ask each code with each name in each field that names something; how many answers came."""
    answered = 0
    with Stranger(program.address) as stranger:
        frames = requests(table)
        while batch := list(islice(frames, AT_ONCE)):
            stranger.socket.sendall(
                b"".join([*batch, json_frame(UNKNOWN_CODE, opaque=BARRIER)])
            )
            while (answer := stranger.read()).opaque != BARRIER:
                answered += 1
                assert not INSIDES.search(answer.remark.encode() + answer.body)
    return answered


def requests(table: Mapping[int, tuple[Mapping[str, str], object]]) -> Iterator[bytes]:
    opaque = 0
    for code, (kinds, form) in table.items():
        good = {name: GOOD.get(kind, "0") for name, kind in kinds.items()}
        body = form if isinstance(form, bytes) else b""
        for field in (name for name, kind in kinds.items() if kind in NAMING):
            for hostile in NAMES if code not in ASIDE else ():
                opaque += 1
                yield json_frame(code, {**good, field: hostile}, body, opaque=opaque)


def files_outside(folder: Path) -> set[str]:
    """All that lies below, but for the broker's store and logs."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if "store" not in path.parts
        and path.suffix != ".log"
        and not path.name.endswith(".bak")
    }
