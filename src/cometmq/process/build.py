"""Which CometMQ runs here: its version, its kernel and its Python, as `--version` and brokers report them."""

import sys
from typing import NamedTuple

from cometmq import __version__
from cometmq.kernel import WHY_PLAIN


class BuildInfo(NamedTuple):
    """The CometMQ of this process.

    Attributes:
        version: Version of the package, "0.1.0".
        kernel: "compiled", or "plain" for the one in Python (docs/design/0017-kernel-twins.md).
        python: Version of Python, "3.11.7".
    """

    version: str
    kernel: str
    python: str


def build_info() -> BuildInfo:
    """Return version, kernel and Python of this process."""
    kernel = "compiled" if WHY_PLAIN is None else "plain"
    return BuildInfo(__version__, kernel, sys.version.split(maxsplit=1)[0])


def version_line() -> str:
    """Return the line of `--version`: `cometmq 0.1.0 (kernel compiled, Python 3.11.7)`; of a plain kernel also why."""
    version, kernel, python = build_info()
    why = "" if WHY_PLAIN is None else f": {WHY_PLAIN}"
    return f"cometmq {version} (kernel {kernel}{why}, Python {python})"
