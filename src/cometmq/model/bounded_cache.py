"""A cache of values made of texts, bounded by bytes in all.

Texts come from peers, so counting entries bounds nothing: 512 of 60 KB are hundreds of MB. What is
found costs no more than a look into a dict; what was made first goes first.
"""

from collections.abc import Callable
from typing import TypeVar

Key = TypeVar("Key")
Made = TypeVar("Made")

_SHARE = 2  # Something larger than this part of the whole is made, and not kept.


class BoundedCache(dict[Key, Made]):
    """A dict that makes what it lacks, and forgets.

    Attributes:
        size: bytes of all that it keeps, as `size_of` says.
    """

    __slots__ = ("_make", "_size_max", "_size_of", "size")

    def __init__(
        self,
        make: Callable[[Key], Made],
        *,
        size_of: Callable[[Key, Made], int],
        size_max: int,
    ) -> None:
        """An empty one; `size_of` must say the same of the same entry each time."""
        super().__init__()
        self._make = make
        self._size_of = size_of
        self._size_max = size_max
        self.size = 0

    def __missing__(self, key: Key) -> Made:
        """Make the value of a text; what `make` raises is raised, and nothing is kept of it."""
        made = self._make(key)
        size = self._size_of(key, made)
        if size > self._size_max // _SHARE:
            return made
        while self.size + size > self._size_max:
            oldest = next(iter(self))
            self.size -= self._size_of(oldest, self.pop(oldest))
        self[key] = made
        self.size += size
        return made
