"""The files of a broker: log, queues, checkpoint and configuration, in RocketMQ's layout.

Synchronous: no loop, no socket, no thread of its own. `message_store.MessageStore` is the front
door; the broker drives it and lends it threads.
"""
