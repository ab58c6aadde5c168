"""Makes the constants of the compiled kernel from the layouts that `cometmq.kernel.layouts` declares.

Of each layout X its size becomes X_SIZE, and the place of its field f X_F_AT; numbers keep their names. They
are constants of C, not values that are read at import: the compiler puts them into the instructions.

`python tools/sync_layouts.py` writes `kernel/_layouts.pxd`, `--check` only says whether it is stale and ends with 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from cometmq.kernel import layouts
from cometmq.kernel.layouts import Layout

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "cometmq" / "kernel" / "_layouts.pxd"
HEAD = "# Made by tools/sync_layouts.py from cometmq.kernel.layouts; do not edit."
INT_MAX = 0x7FFFFFFF
UNSIGNED_MAX = 0xFFFFFFFF


def main() -> int:
    """Write the constants, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if stale")
    is_check = parser.parse_args().check
    made = make()
    if TARGET.exists() and TARGET.read_text() == made:
        return 0
    if not is_check:
        TARGET.write_text(made)
    print(f"{TARGET.relative_to(ROOT)}: {'stale; run make sync' if is_check else 'written'}")
    return int(is_check)


def make() -> str:
    """The text of the made file."""
    numbers = dict(constants())
    small = [f"    {name} = {value}" for name, value in numbers.items() if value <= INT_MAX]
    # What is no int of C is a name of the preprocessor.
    large = {name: value for name, value in numbers.items() if value > INT_MAX}
    defines = [f"    #define COMETMQ_{name} {_literal(value)}" for name, value in large.items()]
    names = [f'    {_type(value)} {name} "COMETMQ_{name}"' for name, value in large.items()]
    parts = [
        HEAD,
        "from libc.stdint cimport int64_t, uint32_t",
        "",
        "cdef enum:",
        *small,
        "",
        "cdef extern from *:",
        '    """',
        *defines,
        '    """',
        *names,
    ]
    return "\n".join(parts) + "\n"


def constants() -> Iterator[tuple[str, int]]:
    """Each number that the layouts say, by its name."""
    for name, value in vars(layouts).items():
        if isinstance(value, Layout):
            yield f"{name}_SIZE", value.size
            for field, place in value.at.items():
                yield f"{name}_{field.upper()}_AT", place
        elif isinstance(value, int) and name.isupper():
            yield name, value


def _type(value: int) -> str:
    return "uint32_t" if value <= UNSIGNED_MAX else "int64_t"


def _literal(value: int) -> str:
    return f"{value:#x}u" if value <= UNSIGNED_MAX else f"{value:#x}LL"


if __name__ == "__main__":
    sys.exit(main())
