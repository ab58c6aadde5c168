"""Checks whether a peer runs on this machine, which may allow it to administrate without access control."""

from ipaddress import IPv6Address, ip_address


def plain_ip(text: str) -> str:
    """Return the text of an IP address without a scope (%eth0), and an IPv4 address mapped into IPv6 as IPv4.

    A socket that listens on `::` reports a peer at 127.0.0.1 as `::ffff:127.0.0.1`. Raises ValueError if it is no IP.
    """
    ip = ip_address(text.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return str(ip)


def is_own_machine(peer_ip: str, local_ip: str) -> bool:
    """Return whether a peer's IP is that to which it connected, or a loopback IP; both IPs as `plain_ip` returns them.

    A network peer cannot have the IP it connected to: answers would not reach it. Clients of a local proxy seem local.
    """
    return peer_ip == local_ip or ip_address(peer_ip).is_loopback
