"""CometMQ: Apache RocketMQ as Python software, compatible on the wire and on disk.

Clients, messages, settings, filters and listeners. All client classes exist twice: `AsyncProducer` for asyncio,
`Producer` for threads. `cometmq.admin` has what administration takes and returns, `cometmq.connect` the parts of
connectors, and `cometmq.errors` the errors. `virtual` creates a nameserver and a broker under virtual time for tests.
"""

from cometmq.model.later import later

# The version of the package: pyproject.toml and everything that shows it read it here.
__version__ = "0.1.0"

# Imported on first use, so that a process that needs one part, such as a Spark worker, does not load the rest.
__getattr__, __dir__, __all__ = later(__name__, "cometmq.client.argument_checks:explained")
