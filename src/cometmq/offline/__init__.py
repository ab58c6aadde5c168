"""Stores without a broker: verified, compared, repaired, rebuilt, archived, restored, read as Arrow.

`cometmq store` does it on one core, the jobs of Spark on all, with the same code (docs/design/0052).
Nothing here knows Spark; what only looks needs neither numpy nor pyarrow. Only `repair` and what
installs rebuilt files change a store, and they take its lock.

Next: cometmq.offline.found
"""
