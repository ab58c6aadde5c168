"""Address patterns of ACL 1.0: an address, or a range given by its parts.

| pattern | meaning |
| --- | --- |
| empty | no address |
| `*`, `*.*.*.*`, `*:*:*:*:*:*:*:*` | all addresses |
| `10.0.0.1`, `1050::5` | one address |
| `10.0.*.*`, `10.0.0.1-20` | a range for each part |
| `10.0.0.{1,2}` | a list for the last part |
| `10.0.0.1,10.0.0.1-20` | a list of addresses and ranges |

IPv6 has the same forms; a range has all eight parts. Follows RemoteAddressStrategyFactory of RocketMQ 4.9.8.
"""

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

from cometmq.model.address import without_brackets
from cometmq.model.text import in_quotes

_ALL = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_FORMS = (
    "10.0.0.1, 10.0.*.*, 10.0.0.1-20, 10.0.0.{1,2}, a list with commas, *, or the same of IPv6"
)
_LIST = re.compile(r"(?P<front>[^{}]+)\{(?P<ends>[^{}]+)\}")
# For IPv4 and IPv6: separator, number of parts, base of their numbers, and the largest number.
_KINDS = ((".", 4, 10, 255), (":", 8, 16, 0xFFFF))

Part = Callable[[int], bool]


class AddressPattern:
    """A pattern of addresses, as in RocketMQ's white lists."""

    def __init__(self, text: str) -> None:
        """Parse a pattern. Raises ValueError, naming the wrong part and the valid forms, if it is invalid."""
        self._text = text.strip()
        self._is_all = self._text in _ALL
        self._single: set[str] = set()
        self._ranges: list[tuple[int, list[Part]]] = []
        if self._text and not self._is_all:
            for each in _several(self._text):
                self._add(each)

    def __repr__(self) -> str:
        return f"<AddressPattern {self._text}>"

    def _add(self, text: str) -> None:
        try:
            if "*" in text or "-" in text:
                self._ranges.append(_range(text))
            else:
                self._single.add(str(ip_address(without_brackets(text))))
        except ValueError:
            raise ValueError(
                f"{in_quotes(text)} is not an address or a range of addresses: write {_FORMS}"
            ) from None

    def holds(self, ip: str) -> bool:
        """Return whether the pattern includes an address in the form of `Peer.ip`."""
        if self._is_all or ip in self._single:
            return True
        if not self._ranges:
            return False
        parts = _parts_of(ip_address(ip))
        return any(
            count == len(parts)
            and all(fits(value) for fits, value in zip(ranges, parts, strict=True))
            for count, ranges in self._ranges
        )


def _several(text: str) -> list[str]:
    braces = _LIST.fullmatch(text)
    if braces is not None:
        return [braces["front"] + end.strip() for end in braces["ends"].split(",")]
    return [each.strip() for each in text.split(",")]


def _range(text: str) -> tuple[int, list[Part]]:
    separator, count, base, most = _KINDS[":" in text]
    parts = text.split(separator)
    if len(parts) != count:
        raise ValueError(text)
    return count, [_part(part, base, most) for part in parts]


def _part(text: str, base: int, most: int) -> Part:
    if text == "*":
        return lambda _value: True
    first, dash, last = text.partition("-")
    low = int(first, base)
    high = int(last, base) if dash else low
    if not 0 <= low <= high <= most:
        raise ValueError(text)
    return lambda value: low <= value <= high


def _parts_of(ip: IPv4Address | IPv6Address) -> list[int]:
    packed = ip.packed
    if len(packed) == 4:
        return list(packed)
    return [int.from_bytes(packed[at : at + 2], "big") for at in range(0, 16, 2)]
