"""Reads the queues of a store in any folder from its queue files."""

from cometmq.model.errors import StoreDamaged
from cometmq.offline.folder import StoreFolder
from cometmq.offline.folder_disk import disk_of
from cometmq.offline.found import find_store
from cometmq.offline.known_queues import KnownQueues
from cometmq.offline.lives import known_queues


def known_queues_in(folder: StoreFolder) -> KnownQueues | None:
    """Return the queues that a store's queue files show; None if log or queues seem damaged, incomplete or unsupported.

    Raises OSError if a file cannot be read.
    """
    try:
        store = find_store(folder.root, None, disk_of(folder), log_paths=folder.log_paths)
    except (StoreDamaged, FileNotFoundError):
        return None
    try:
        return known_queues(store)
    finally:
        store.close()
