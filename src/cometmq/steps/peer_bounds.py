"""Limits on waiting requests: their number and bytes per peer, and their bytes in total."""

from collections.abc import Hashable


class PeerBounds:
    """Counts waiting requests (or pieces) and bytes. Both are limited per peer (a connection); in total, only bytes."""

    def __init__(self, *, peer_count_max: int, peer_size_max: int, size_max: int) -> None:
        self._peer_count_max = peer_count_max
        self._peer_size_max = peer_size_max
        self._size_max = size_max
        self._of: dict[Hashable, tuple[int, int]] = {}
        self._size = 0

    def take(self, peer: Hashable, size: int) -> bool:
        """Count one more request of a connection; return False, and count nothing, if that would exceed a limit."""
        count, total = self._of.get(peer, (0, 0))
        if (
            count >= self._peer_count_max
            or total + size > self._peer_size_max
            or self._size + size > self._size_max
        ):
            return False
        self.add(peer, size)
        return True

    def is_full(self, peer: Hashable) -> bool:
        """Return whether a connection has reached a limit, or all connections together the limit on bytes."""
        count, total = self._of.get(peer, (0, 0))
        return (
            count >= self._peer_count_max
            or total >= self._peer_size_max
            or self._size >= self._size_max
        )

    def add(self, peer: Hashable, size: int) -> None:
        """Count one more request of a connection, whatever the limits."""
        count, total = self._of.get(peer, (0, 0))
        self._of[peer] = (count + 1, total + size)
        self._size += size

    def give_back(self, peer: Hashable, size: int) -> None:
        """Subtract a connection's request that no longer waits; `size` is its number of bytes as it was counted."""
        count, total = self._of[peer]
        if count > 1:
            self._of[peer] = (count - 1, total - size)
        else:
            del self._of[peer]
        self._size -= size
