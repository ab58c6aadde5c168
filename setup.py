"""The compiled kernel, where there is a C compiler; without one the plain Python kernel does the same.

With COMETMQ_KERNEL=fast, which has a running CometMQ refuse the plain kernel, a build without the compiled one fails, too:
so no release is slow because its compiler failed. Everything else about the package stands in pyproject.toml.
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# Commands that only describe or pack the sources; translating them to C takes half a minute.
_packs = not {"egg_info", "dist_info", "sdist"}.isdisjoint(sys.argv)
kernel = cythonize(
    [
        Extension(
            f"cometmq.kernel.{source.stem}",
            [source.as_posix()],
            extra_compile_args=["-O2", "-g0"],
        )
        for source in sorted(Path("src/cometmq/kernel").glob("_*.pyx"))
        if not _packs
    ],
    include_path=["src"],
    build_dir="build",
    nthreads=os.cpu_count() or 1,
)
for extension in kernel:
    # A compiler that is missing or fails is a warning. (`cythonize` drops the word on its way.)
    extension.optional = os.environ.get("COMETMQ_KERNEL") != "fast"

setup(ext_modules=kernel, options={"build_ext": {"parallel": os.cpu_count()}})
