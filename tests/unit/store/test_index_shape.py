"""The shape of an index file is found out from the file alone."""

from __future__ import annotations

import pytest

from cometmq.codec.index_file import decode_header
from cometmq.offline.index_shape import find_shape
from cometmq.store.index import Index
from cometmq.store.index_file import IndexShape
from cometmq.store.real_disk import RealDisk
from tests.support.hand_clock import HandClock


@pytest.mark.parametrize("first", [0, 4096])
@pytest.mark.parametrize("keys", [1, 2, 7, 600])
def test_the_right_one_of_many_shapes_of_one_size_is_found(tmp_path, first, keys):
    disk, shape = RealDisk(), IndexShape(1000, 4000)
    index = Index(disk, str(tmp_path / "index"), shape, clock=HandClock(1_700_000_000_000))
    numbers = range(1, keys + 1)
    hashes = [number * 7919 for number in numbers]
    offsets = [first + (number - 1) * 200 for number in numbers]
    index.enter(hashes, offsets, [1_700_000_000_000] * keys)
    index.write_all()
    index.take_sync().run()
    index.close()
    fd = disk.open(index.files[0].path, write=False)
    try:
        assert find_shape(disk, fd, decode_header(disk.pread(fd, 40, 0))) == shape
    finally:
        disk.close(fd)
