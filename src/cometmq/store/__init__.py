"""The files of a broker, in RocketMQ's layout with a few of our own: log, queues, index, timer, configuration.

Synchronous code without a loop, socket or thread of its own. The broker drives `message_store.MessageStore`.
"""
