"""The CometMQ of this process: version, kernel and Python, as `--version`, brokers and logs report them."""

import os
import platform
import sys
from typing import NamedTuple

from cometmq import __version__
from cometmq.kernel import WHY_PLAIN


class Build(NamedTuple):
    """The CometMQ of this process.

    Attributes:
        version: Version of the package, "0.1.0".
        kernel: "compiled", or "plain" for the one in Python (docs/design/0017-kernel-twins.md).
        python: Version of Python, "3.11.7".
    """

    version: str
    kernel: str
    python: str


def this_build() -> Build:
    """Return version, kernel and Python of this process."""
    kernel = "compiled" if WHY_PLAIN is None else "plain"
    return Build(__version__, kernel, sys.version.split(maxsplit=1)[0])


def version_line() -> str:
    """Return the line of `--version`: `cometmq 0.1.0 (kernel compiled, Python 3.11.7, HTTP/2 jh2)`; of a plain kernel also why."""
    from cometmq.wire.h2.choice import ENGINE

    version, kernel, python = this_build()
    why = "" if WHY_PLAIN is None else f": {WHY_PLAIN}"
    return f"cometmq {version} (kernel {kernel}{why}, Python {python}, HTTP/2 {ENGINE})"


def running_versions() -> str:
    """Return the first line of a log: CometMQ, kind of the kernel, Python, the system, and the id of the process."""
    version, kernel, python = this_build()
    return (
        f"CometMQ {version} with the {kernel} kernel, Python {python}, {platform.system()} "
        f"{platform.release()} {platform.machine()}, process {os.getpid()}"
    )
