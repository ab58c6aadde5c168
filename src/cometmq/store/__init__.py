"""The files of a broker: log, queues, checkpoint and configuration, in RocketMQ's layout.

Synchronous code without a loop, socket or thread of its own. `message_store.MessageStore` is the main class; the
broker drives it and lends it threads.
"""
