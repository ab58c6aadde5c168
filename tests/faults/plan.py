"""Which faults come in which order: chosen by a seed, and repeated by it."""

import random
from collections.abc import Callable
from typing import NamedTuple

from tests.faults.places import PlacedGroup


class Kind(NamedTuple):
    """A kind of fault.

    Attributes:
        name: as the report calls it.
        do: does it to a member and undoes it after a time, s.
        seconds: least and most of that time.
        needs: what of `PlacedGroup.missing` it cannot do without; "": nothing.
        is_of_all: whether it happens to all members.
    """

    name: str
    do: Callable[[PlacedGroup, str, float], None]
    seconds: tuple[float, float]
    needs: str = ""
    is_of_all: bool = False


KINDS = (
    Kind("kill -9", PlacedGroup.kill, (0.5, 4)),
    Kind("all killed at once", PlacedGroup.kill_all, (0, 2), is_of_all=True),
    Kind("SIGSTOP", PlacedGroup.pause, (1, 15)),
    Kind("full disk", PlacedGroup.fill_disk, (2, 10), "disk"),
    Kind("cable pulled", PlacedGroup.unplug, (2, 8), "network"),
    Kind("cut off from the others", PlacedGroup.isolate, (2, 8), "network"),
    Kind("mute", PlacedGroup.mute, (2, 8), "network"),
    Kind("deaf", PlacedGroup.deafen, (2, 8), "network"),
    Kind("one link cut", PlacedGroup.cut_one_link, (2, 8), "network"),
)


class Fault(NamedTuple):
    """One fault of a run.

    Attributes:
        kind: what happens.
        of_leader: whether it happens to the leader; otherwise to one of the followers.
        follower: which of them, 0 or 1.
        seconds: how long it lasts.
    """

    kind: Kind
    of_leader: bool
    follower: int
    seconds: float

    def __str__(self) -> str:
        if self.kind.is_of_all:
            return self.kind.name
        return f"{self.kind.name} of {'the leader' if self.of_leader else 'a follower'}"


def faults(seed: int, rounds: int, kinds: list[Kind]) -> list[Fault]:
    """Choose the faults of a run; each kind comes before any comes again."""
    chance = random.Random(seed)
    chosen: list[Kind] = []
    while len(chosen) < rounds:
        chosen += chance.sample(kinds, len(kinds))
    return [
        Fault(kind, chance.random() < 0.5, chance.randrange(2), chance.uniform(*kind.seconds))
        for kind in chosen[:rounds]
    ]
