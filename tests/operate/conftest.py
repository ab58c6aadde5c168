"""The watched cluster of this folder's tests about metrics, alerts and the board."""

from collections.abc import Iterator

import pytest

from tests.operate.watched import Watched, watched


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched(tmp_path_factory.mktemp("watched")) as started:
        yield started
