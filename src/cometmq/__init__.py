"""CometMQ: Apache RocketMQ as Python software, compatible on the wire and on disk.

All public names of `cometmq.client` can be imported from here (loaded on first use), and `virtual`, which creates a
nameserver and a broker under virtual time for tests. Errors are in `cometmq.errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cometmq.client import *  # noqa: F403  Its `__all__` says what that is.
    from cometmq.embedded.virtual import Virtual

# The version of the package: pyproject.toml and everything that shows it read it here.
__version__ = "0.1.0"


def virtual(
    data_dir: "str | Path | None" = None,
    *,
    settings: "Mapping[str, str | int | bool] | None" = None,
    seed: int = 0,
) -> "Virtual":
    """Create a nameserver and a broker under virtual time, for tests; `with` starts and closes them.

    See `cometmq.embedded.virtual`.

    Args:
        data_dir: Folder for the files of both; None for a temporary one.
        settings: Settings as in a `broker.conf`, except namesrvAddr, listenPort and the paths of the store.
        seed: Seed of the random numbers of the loop.

    Raises:
        SettingsError: A setting cannot be used; some are checked only at the start.
    """
    # Imported here, because most users of the package need only one part of it.
    from cometmq.embedded.virtual import Virtual

    return Virtual(data_dir, settings=settings, seed=seed)


if not TYPE_CHECKING:  # A type checker would accept any name with it.

    def __getattr__(name: str) -> object:
        """Return the object that `cometmq.client` has under a public name, or the list `__all__`; else raise AttributeError."""
        if name == "__all__":  # For `from cometmq import *`.
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
