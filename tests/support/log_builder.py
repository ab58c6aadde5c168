"""Something that is built from the log: the places of its records, in a file, with a position of its own."""

import errno
import json
from collections.abc import Callable
from typing import Any

from cometmq.codec.record import decode_records
from cometmq.store.batch import RawRecords
from cometmq.store.disk import Disk, read_file, write_file
from cometmq.store.log_follower import LogFollower


class PlacesBuilder:
    """A builder of the physical offsets of all records (`store.log_follower.Builder`).

    Attributes:
        is_failing: whether the place that it writes to is broken.
        given: the number of records of each call, failed ones included.
        on_back: called as it goes back.
    """

    name = "places"

    def __init__(
        self, disk: Disk, *, folder: str = "/built", position: int = 0, kept_max: int = 1 << 40
    ) -> None:
        self._disk = disk
        self._path = f"{folder}/places.json"
        self.kept_max = kept_max
        self.is_failing = False
        self.on_back: Callable[[], None] = lambda: None
        self.given: list[int] = []
        self._kept: dict[str, Any] = {"position": position, "places": [], "gaps": []}
        if disk.exists(self._path):
            self._kept = json.loads(read_file(disk, self._path))
        disk.make_directory(folder)
        disk.sync_directory(folder.rpartition("/")[0] or "/")

    @property
    def position(self) -> int:
        return int(self._kept["position"])

    @property
    def places(self) -> list[int]:
        return list(self._kept["places"])

    @property
    def gaps(self) -> list[list[int]]:
        return list(self._kept["gaps"])

    def build(self, records: RawRecords) -> None:
        places = [record.physical_offset for record in decode_records(records.content)]
        self.given.append(len(places))
        self._keep(records.start + len(records.content), self.places + places, self.gaps)

    def go_back(self, end: int) -> None:
        self.on_back()
        places = [place for place in self.places if place < end]
        self._keep(min(self.position, end), places, self.gaps)

    def skip(self, start: int, end: int) -> None:
        self._keep(end, self.places, [*self.gaps, [start, end]])

    def _keep(self, position: int, places: list[int], gaps: list[list[int]]) -> None:
        if self.is_failing:
            raise OSError(errno.EIO, "Input/output error")
        kept = {"position": position, "places": places, "gaps": gaps}
        write_file(self._disk, self._path, json.dumps(kept).encode())
        self._kept = kept


def go_on(follower: LogFollower, *, steps: int = 1_000) -> int:
    """Run the steps that are due, as a thread would; give their number."""
    for count in range(steps):
        step = follower.due()
        if step is None:
            return count
        step()
    return steps
