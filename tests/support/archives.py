"""Tar archives, unpacked alike by each release of Python 3.11: the first four know no filter."""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def opened_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """A tar archive, of which nothing is written outside the folder that it is unpacked to, where Python can tell."""
    with tarfile.open(path) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        yield archive
