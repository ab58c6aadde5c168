"""The compiled kernel, where there is a C compiler; without one the plain Python kernel does the same.

Everything else about the package stands in pyproject.toml.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

kernel = cythonize(
    [
        Extension(
            "cometmq.kernel._fast",
            ["src/cometmq/kernel/_fast.pyx"],
            extra_compile_args=["-O2", "-g0"],
        )
    ],
    build_dir="build",
)
for extension in kernel:
    # A compiler that is missing or fails is a warning. (`cythonize` drops the word on its way.)
    extension.optional = True

setup(ext_modules=kernel)
