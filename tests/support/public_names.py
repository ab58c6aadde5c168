"""The public names of the client, by the module from which users import them."""

from types import ModuleType
from typing import Any

import cometmq
import cometmq.admin
import cometmq.connect

TIERS: tuple[ModuleType, ...] = (cometmq, cometmq.admin, cometmq.connect)


def public_names() -> dict[str, Any]:
    """Return all public objects by name."""
    return {name: getattr(tier, name) for tier in TIERS for name in tier.__all__}


def public(name: str) -> Any:
    """Return the public object of a name."""
    return public_names()[name]
