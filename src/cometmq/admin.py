"""The objects that the methods of `cometmq.Admin` and `cometmq.AsyncAdmin` take and return."""

from cometmq.model.later import later

__getattr__, __dir__, __all__ = later(__name__, "cometmq.client.argument_checks:explained")
