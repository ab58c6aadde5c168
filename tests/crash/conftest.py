"""How long the crash tests go on: `make crash ARGS="--rounds 200"` is the long run."""

import pytest

CI_ROUNDS = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rounds",
        type=int,
        default=CI_ROUNDS,
        help=f"kills of a broker under load, for each kind of flush (default {CI_ROUNDS})",
    )


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How many rounds to go."""
    return int(request.config.getoption("--rounds", CI_ROUNDS))
