"""The files of a broker, in RocketMQ's layout with a few of our own: log, queues, index, timer, configuration.

Synchronous code without a loop, socket or thread of its own. The broker drives `message_store.MessageStore`. It uses
system calls of Linux; on other systems importing it raises StoreError.
"""

import sys

from cometmq.model.errors import StoreError

if sys.platform != "linux":
    raise StoreError(
        f"servers and the tools for stores run on Linux only, and this is {sys.platform}; clients run here, for servers elsewhere"
    )
