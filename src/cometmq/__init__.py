"""CometMQ: Apache RocketMQ, compatible on the wire and on disk, as Python software."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
