"""The compiled kernel, and the HTTP/2 engine on nghttp2; the plain Python kernel and another library do the same without.

With COMETMQ_KERNEL=fast, which has a running CometMQ refuse the plain kernel, a build without the compiled one fails, too:
so no release is slow because its compiler failed. Everything else about the package stands in pyproject.toml.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

_OPTIONS = ["-O2", "-g0"]


def nghttp2_flags() -> list[str] | None:
    """What the compiler needs for nghttp2; None if its headers are not installed."""
    try:
        found = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "libnghttp2"],  # noqa: S607
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return shlex.split(found.stdout)
    except (OSError, subprocess.CalledProcessError):
        return ["-lnghttp2"] if Path("/usr/include/nghttp2/nghttp2.h").exists() else None


def extensions() -> list[Extension]:
    """The modules to compile: those of the kernel, and the one for nghttp2 if its headers are there."""
    found = [
        Extension(
            f"cometmq.kernel.{source.stem}", [source.as_posix()], extra_compile_args=_OPTIONS
        )
        for source in sorted(Path("src/cometmq/kernel").glob("_*.pyx"))
    ]
    flags = nghttp2_flags()
    if flags is not None:
        source = "src/cometmq/wire/h2/_nghttp2.pyx"
        found.append(
            Extension(
                "cometmq.wire.h2._nghttp2", [source],
                extra_compile_args=[*_OPTIONS, *(flag for flag in flags if flag.startswith("-I"))],
                extra_link_args=[flag for flag in flags if flag.startswith(("-L", "-l"))],
            )
        )  # fmt: skip
    return found


# Commands that only describe or pack the sources; translating them to C takes half a minute.
_packs = not {"egg_info", "dist_info", "sdist"}.isdisjoint(sys.argv)
compiled = cythonize(
    [] if _packs else extensions(),
    include_path=["src"],
    build_dir="build",
    nthreads=os.cpu_count() or 1,
)
for extension in compiled:
    # A compiler that is missing or fails is a warning. (`cythonize` drops the word on its way.)
    extension.optional = os.environ.get("COMETMQ_KERNEL") != "fast"

setup(ext_modules=compiled, options={"build_ext": {"parallel": os.cpu_count()}})
