"""Addresses as stored in records and message ids: the bytes of the IP, then the port in four bytes.

IPv4: | address 4 | port 4 |        IPv6: | address 16 | port 4 |

A record's sysFlag tells which of the two it is (`model.flags.BORN_HOST_V6`, `STORE_HOST_V6`); elsewhere the length
tells. In text form, IPv6 is in brackets: "[fd00::2]:10911" (docs/format/host.md).
"""

from ipaddress import AddressValueError, IPv4Address, IPv6Address
from struct import Struct

from cometmq.kernel import layouts
from cometmq.model.address import PORT_MAX
from cometmq.model.bounded_cache import keep_short
from cometmq.model.errors import CodecError
from cometmq.model.numbers import whole_number
from cometmq.model.text import in_quotes

HOST_V4 = Struct(">4sI")
HOST_V6 = Struct(">16sI")
HOST_V4_SIZE = layouts.HOST_V4_SIZE
HOST_V6_SIZE = layouts.HOST_V6_SIZE
assert (HOST_V4.size, HOST_V6.size) == (HOST_V4_SIZE, HOST_V6_SIZE), "an address and its port"

NO_HOST = bytes(HOST_V4_SIZE)  # 0.0.0.0:0


@keep_short(4096)  # Peers repeat; the limit bounds memory during an address scan.
def encode_host(address: str) -> bytes:
    """Encode "ip:port" or "[ip]:port" to 8 or 20 bytes; raises CodecError for texts such as host names."""
    ip, colon, digits = address.rpartition(":")
    port = whole_number(digits)
    if not colon or port is None or port > PORT_MAX:
        raise CodecError(f"{in_quotes(address)} is not an address; write it as ip:port")
    try:
        if ":" in ip:
            return HOST_V6.pack(IPv6Address(ip.strip("[]")).packed, port)
        return HOST_V4.pack(IPv4Address(ip).packed, port)
    except AddressValueError as error:
        raise CodecError(f"{in_quotes(address)} is not an address: {error}") from None


@keep_short(4096)  # One entry per producer and broker; see encode_host.
def decode_host(host: bytes) -> str:
    """Decode 8 or 20 bytes to "127.0.0.1:10911" or "[fd00::2]:10911"; raises CodecError for other lengths."""
    if len(host) == HOST_V4_SIZE:
        ip, port = HOST_V4.unpack(host)
        return f"{ip[0]}.{ip[1]}.{ip[2]}.{ip[3]}:{port}"
    if len(host) == HOST_V6_SIZE:
        ip, port = HOST_V6.unpack(host)
        return f"[{IPv6Address(ip).compressed}]:{port}"
    raise CodecError(f"a host has {len(host)} bytes; it needs 8 (IPv4) or 20 (IPv6)")
