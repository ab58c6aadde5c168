"""Whether a peer sits on this machine: what administration asks, of brokers and nameservers alike."""

from ipaddress import IPv6Address, ip_address


def plain_ip(text: str) -> str:
    """An address of a socket as it is compared: without a scope, and IPv4 as IPv4.

    A socket that listens on `::` calls a peer at 127.0.0.1 `::ffff:127.0.0.1`.
    """
    ip = ip_address(text.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return str(ip)


def is_own_machine(peer_ip: str, local_ip: str) -> bool:
    """Whether a connection between these two plain addresses never left the machine.

    A peer that came over the network cannot have the address that it came to: the answers would not
    reach it.
    """
    return peer_ip == local_ip or ip_address(peer_ip).is_loopback
