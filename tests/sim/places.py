"""Names and addresses in a simulated group of brokers."""

from collections.abc import Iterable

BROKER = "broker-a"
NAMES_IP, CLIENT_IP, NAMES_PORT = "10.0.0.9", "10.0.0.8", 9876
NAMES = f"{NAMES_IP}:{NAMES_PORT}"
# Of the machines on which brokers run, by dLegerSelfId; the first ones are the members at the start.
IPS = {f"n{number}": f"10.0.0.{number}" for number in range(5)}
VOTERS = 3


def address_of(member: str) -> str:
    """Return the address at which a member serves the others."""
    return f"{IPS[member]}:40911"


def peers_of(members: Iterable[str]) -> str:
    """Return the value of dLegerPeers."""
    return ";".join(f"{each}-{address_of(each)}" for each in members)
