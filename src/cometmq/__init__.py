"""CometMQ: Apache RocketMQ, compatible on the wire and on disk, as Python software.

All names of `cometmq.client` can be imported from here, each when it is asked for; errors from `cometmq.errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cometmq.client import *  # noqa: F403  Its `__all__` says what that is.
    from cometmq.embedded.virtual import Virtual


def virtual(
    data_dir: "str | Path | None" = None,
    *,
    settings: "Mapping[str, str | int | bool] | None" = None,
    seed: int = 0,
) -> "Virtual":
    """Make a nameserver and a broker under virtual time, for tests; see `cometmq.embedded.virtual`.

    Args:
        data_dir: where the files lie; None: a temporary folder.
        settings: keys and values of a `broker.conf`.
        seed: of everything that is left to chance.

    Raises:
        SettingsError: a value that cannot be used.
    """
    # Most who import the package want one part of it.
    from cometmq.embedded.virtual import Virtual

    return Virtual(data_dir, settings=settings, seed=seed)


if not TYPE_CHECKING:  # A checker that sees it takes any name to be there.

    def __getattr__(name: str) -> object:
        """A name of `cometmq.client`; most who import the package want one part of it."""
        if name == "__all__":  # Of `from cometmq import *`.
            return [*import_module("cometmq.client").__all__, "virtual"]
        if not name.startswith("_"):
            client = import_module("cometmq.client")
            if name in client.__all__:
                found: object = getattr(client, name)
                globals()[name] = found
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("cometmq.client").__all__})
