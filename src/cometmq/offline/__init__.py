"""Stores without a broker: verify, compare, repair, rebuild, archive, restore, and read as Arrow.

`cometmq store` uses this code on one core, some Spark jobs on all cores (docs/design/0052). Nothing here depends on
Spark, and `verify` and `repair` need neither numpy nor pyarrow. `repair` and the installation of rebuilt
files change a store's files and need its lock; `archive` only records its progress in it (archived.json). The package
itself has `read`, which returns a store's messages as Arrow batches; everything else is in its modules.
"""

from cometmq.model.later import later

# Needs numpy and pyarrow, and most modules here do without.
__getattr__, __dir__, __all__ = later(__name__)
