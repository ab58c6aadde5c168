"""What a run of faults says in its last line."""

from collections.abc import Callable

import pytest

_LAST = pytest.StashKey[list[str]]()


@pytest.fixture
def report_last(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Print a text as the last line of the run, also if tests fail."""
    return request.config.stash.setdefault(_LAST, []).append


def pytest_unconfigure(config: pytest.Config) -> None:
    for text in config.stash.get(_LAST, []):
        print(text)
