"""The identity of a client: its id among the members of a group, and the prefix of its message ids."""

import os
import random
import secrets
from ipaddress import ip_address
from weakref import WeakSet

from cometmq.codec.message_id import UniqueIds
from cometmq.model.address import split_address, without_brackets
from cometmq.model.clock import Clock
from cometmq.model.errors import SettingsError
from cometmq.net.loop import loop_network

_LOOPBACK = "127.0.0.1"


def own_ip(toward: str) -> str:
    """The address of this machine on the way to "host:port"; no packet is sent for it."""
    try:
        return loop_network().own_ip(*split_address(toward))
    except (OSError, ValueError):  # Python says with the latter that a host's name cannot be.
        return _LOOPBACK


def checked_ip(text: str) -> str:
    """Check an address that a setting gives.

    Raises:
        SettingsError: it is a name, or no address at all.
    """
    try:
        return str(ip_address(without_brackets(text)))
    except ValueError:
        raise SettingsError(
            f"client_ip {text!r} is no IP address; give one, or leave it empty"
        ) from None


def make_client_id(ip: str, instance_name: str, chance: random.Random) -> str:
    """Make a client id: `ip@instance#random`.

    The random part keeps apart clients in containers whose ip and process id are the same: two
    members of a group with one id would take the same queues.
    """
    return f"{ip}@{instance_name or os.getpid()}#{chance.getrandbits(48):012x}"


def make_unique_ids(ip: str, clock: Clock, chance: random.Random) -> UniqueIds:
    """Make the generator of a client's message ids; in the child of a fork it makes others than in the parent."""
    ids = UniqueIds(
        ip=ip_address(ip).packed, pid=os.getpid(), loader=chance.getrandbits(32), clock=clock
    )
    _generators.add(ids)
    return ids


_generators: WeakSet[UniqueIds] = WeakSet()


def _renew_generators() -> None:
    for ids in _generators:
        ids.renew(pid=os.getpid(), loader=secrets.randbits(32))


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=_renew_generators)
