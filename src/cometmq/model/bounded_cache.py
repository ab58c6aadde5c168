"""Caches of values made from texts or bytes, with a limit on their memory.

Many such texts come from peers, so limiting the number of entries is not enough: 512 texts of 60 KB are 30 MB.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from inspect import signature
from typing import Any, TypeVar, cast

Key = TypeVar("Key")
Made = TypeVar("Made")
Function = TypeVar("Function", bound=Callable[..., Any])

# Typical maximum length of repeated texts: tags, topics and addresses.
SHORT = 64

_SHARE = 2  # Entries larger than the limit divided by this are not kept.


class BoundedCache(dict[Key, Made]):
    """A dict whose `[key]` makes missing values, and evicts the first inserted beyond a limit in bytes.

    An entry larger than half of the limit is not kept; its value is only returned.

    Attributes:
        size: Total size of the entries in bytes, according to `size_of`.
    """

    __slots__ = ("_make", "_size_max", "_size_of", "size")

    def __init__(
        self,
        make: Callable[[Key], Made],
        *,
        size_of: Callable[[Key, Made], int],
        size_max: int,
    ) -> None:
        """`make` returns the value for a key; `size_of` returns an entry's size in bytes, always the same."""
        super().__init__()
        self._make = make
        self._size_of = size_of
        self._size_max = size_max
        self.size = 0

    def __missing__(self, key: Key) -> Made:
        """Make, store and return a missing value, or only return it if it is too large. Raises what `make` raises."""
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
    """Return a decorator that caches a function's recent results (thread-safe), only for short first arguments.

    Args:
        count: Number of results to keep.
        length_max: Maximum length of a first argument whose result is kept. Further arguments must have a fixed size.
        length_of: Returns the length of a first argument, in characters or bytes.
    """

    def decorate(function: Function) -> Function:
        kept = lru_cache(maxsize=count)(function)

        # Two wrappers, because the one for a single argument takes half of the time.
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
