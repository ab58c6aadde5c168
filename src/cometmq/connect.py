"""Parts for connectors: encoded sends, reads of single queues, replay claims, allocation of queues, and shared connections."""

from cometmq.model.later import later

__getattr__, __dir__, __all__ = later(__name__, "cometmq.client.argument_checks:explained")
