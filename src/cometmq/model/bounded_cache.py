"""Caches of values made of texts, bounded in bytes.

Texts come from peers, so counting entries bounds nothing: 512 of 60 KB are hundreds of MB. `BoundedCache` adds up the
bytes of all entries; a lookup costs what one in a dict costs, and the oldest entry goes first. `keep_short` keeps results of a
function for short arguments alone; it is for functions that several threads call.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from inspect import signature
from typing import Any, TypeVar, cast

Key = TypeVar("Key")
Made = TypeVar("Made")
Function = TypeVar("Function", bound=Callable[..., Any])

# Tags, names of topics and addresses that repeat are hardly longer.
SHORT = 64

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


def keep_short(
    count: int, *, length_max: int = SHORT, length_of: Callable[[Any], int] = len
) -> Callable[[Function], Function]:
    """Keep the last results of a function for first arguments that are short; compute the others each time.

    Args:
        count: Number of results that are kept.
        length_max: Length of the longest first argument whose result is kept. Further arguments must be of a fixed size.
        length_of: Returns the length of a first argument, in characters or bytes.
    """

    def decorate(function: Function) -> Function:
        kept = lru_cache(maxsize=count)(function)

        # Two of them, since a plain call of one argument takes half of the time.
        @wraps(function)
        def call(argument: Any) -> Any:
            return kept(argument) if len(argument) <= length_max else function(argument)

        @wraps(function)
        def call_measured(argument: Any, *more: Any) -> Any:
            is_short = length_of(argument) <= length_max
            return kept(argument, *more) if is_short else function(argument, *more)

        is_plain = length_of is len and len(signature(function).parameters) == 1
        made: Any = call if is_plain else call_measured
        made.kept = kept
        return cast("Function", made)

    return decorate
