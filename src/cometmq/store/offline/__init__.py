"""Stores without a broker: looked at, verified, compared, repaired.

Nothing here writes but `repair`, and nothing but `repair` takes the lock: a directory is read as it
lies, Java's too. Sizes of files are those that the files have.

Next: cometmq.store.offline.found
"""
