"""Memory of brokers that recently claimed a name and id used by another living broker.

They do not usually regain a lost place while its owner answers (`nameserver.owners`). GET_MISSING_BROKERS lists them.
"""

from typing import NamedTuple

from cometmq.codec.bodies.missing_brokers import RivalBroker
from cometmq.codec.headers.nameserver import RegisterBroker
from cometmq.model.clock import Clock

# A broker that still claims the place registers every 30 s (60 s at most).
CLAIM_SECONDS = 120.0
RIVALS_MAX = 256
# Maximum total characters of the names of one rival.
NAMES_SIZE_MAX = 1024


class _Place(NamedTuple):
    """A name and id within a cluster, and the address of a broker that claims them."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str


class Rivals:
    """Remembers at most RIVALS_MAX claims to living brokers' names and ids; each for two minutes at most."""

    def __init__(self) -> None:
        self._claims: dict[
            _Place, tuple[float, int]
        ] = {}  # Monotonic seconds, and ms since 1970.

    def note(self, header: RegisterBroker, address: str, clock: Clock) -> None:
        """Record that the broker at `address` lost, or was refused, the header's name and id; ignore long names."""
        place = _Place(header.cluster_name, header.broker_name, header.broker_id, address)
        if len(place.cluster) + len(place.broker_name) + len(address) > NAMES_SIZE_MAX:
            return
        self._claims.pop(place, None)
        self._claims[place] = clock.monotonic(), clock.now_ms()
        if len(self._claims) > RIVALS_MAX:
            del self._claims[next(iter(self._claims))]

    def has(self, header: RegisterBroker, now: float) -> bool:
        """Return whether the registering broker's claim to its name and id is remembered from the last two minutes."""
        place = _Place(
            header.cluster_name, header.broker_name, header.broker_id, header.broker_addr
        )
        return now - self._claims.get(place, (-CLAIM_SECONDS, 0))[0] < CLAIM_SECONDS

    def forget(self, address: str) -> None:
        """Forget all claims of the broker at an address, because it was registered or has left."""
        for place in [place for place in self._claims if place.address == address]:
            del self._claims[place]

    def known(self, now: float) -> list[RivalBroker]:
        """Return the remembered claims of the last two minutes."""
        return [
            RivalBroker(place.broker_name, place.cluster, place.broker_id, place.address, at_ms)
            for place, (at, at_ms) in self._claims.items()
            if now - at < CLAIM_SECONDS
        ]
