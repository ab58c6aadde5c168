"""The files of a broker: log, queues, checkpoint and configuration, in RocketMQ's layout.

Synchronous code without a loop, socket or thread of its own. The broker drives `message_store.MessageStore`.
"""
