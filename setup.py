"""The compiled kernel, where there is a C compiler; without one the plain Python kernel does the same.

Everything else about the package stands in pyproject.toml.
"""

import os

from Cython.Build import cythonize
from setuptools import Extension, setup

kernel = cythonize(
    [
        Extension(
            f"cometmq.kernel.{name}",
            [f"src/cometmq/kernel/{name}.pyx"],
            extra_compile_args=["-O2", "-g0"],
        )
        for name in (
            "_acks",
            "_answers",
            "_calls",
            "_column_records",
            "_columns",
            "_crc",
            "_entries",
            "_frames",
            "_index",
            "_lane_table",
            "_mapped_files",
            "_messages",
            "_packing",
            "_pull_answers",
            "_pulls",
            "_queue_ends",
            "_reads",
            "_send_headers",
            "_signatures",
            "_taking",
            "_tallies",
            "_time_counts",
            "_turn_reads",
            "_pipelined_sends",
            "_walk",
        )
    ],
    include_path=["src"],
    build_dir="build",
    nthreads=os.cpu_count() or 1,
)
for extension in kernel:
    # A compiler that is missing or fails is a warning. (`cythonize` drops the word on its way.)
    extension.optional = True

setup(ext_modules=kernel, options={"build_ext": {"parallel": os.cpu_count()}})
