"""The identity of a client: its client id and the generator of its message ids."""

import os
import random
import secrets
from ipaddress import ip_address
from weakref import WeakSet

from cometmq.codec.message_id import UniqueIds
from cometmq.model.address import split_address, without_brackets
from cometmq.model.clock import Clock
from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes
from cometmq.net.loop import loop_network

_LOOPBACK = "127.0.0.1"


def own_ip(toward: str) -> str:
    """Return the IP address from which this machine would connect to "host:port"; 127.0.0.1 if it cannot be found.

    Nothing is sent to that host, but a host name is looked up, which blocks.
    """
    try:
        return loop_network().own_ip(*split_address(toward))
    except (OSError, ValueError):  # Python raises ValueError for an impossible host name.
        return _LOOPBACK


def checked_ip(text: str) -> str:
    """Return the IP address in the setting `client_ip`; raise SettingsError if the text is not an IP address."""
    try:
        return str(ip_address(without_brackets(text)))
    except ValueError:
        raise SettingsError(
            f"client_ip {in_quotes(text)} is not an IP address; set one, or leave it empty"
        ) from None


def make_client_id(ip: str, instance_name: str, chance: random.Random) -> str:
    """Make a client id: `ip@instance#random`, where an empty instance name becomes the process id.

    The random part distinguishes clients in containers with the same ip and process id: two members of a group with the
    same id could consume the same queues.
    """
    return f"{ip}@{instance_name or os.getpid()}#{chance.getrandbits(48):012x}"


def make_unique_ids(ip: str, clock: Clock, chance: random.Random) -> UniqueIds:
    """Make a generator of message ids for a client; after a fork the child's copy makes other ids than the parent's."""
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
