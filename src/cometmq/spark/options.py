"""Definition and parsing of the options of the Spark formats "rocketmq" and "rocketmq-store".

The tables of `Option` drive the parser, the error messages and the tables in docs/spark (checked by tests). An unknown
option is an error that names a similar one or all, because a misspelt `startingOffset` would start at a wrong offset.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cometmq.model.address import PORT_MAX, split_address
from cometmq.model.credentials import Credentials
from cometmq.model.errors import SettingsError
from cometmq.model.names import group_fault, topic_fault
from cometmq.model.text import in_quotes
from cometmq.model.tls import TlsSettings
from cometmq.offline.columns.names import nearest

# Options that Spark itself adds to those of a source or sink, in lower case as Spark passes them.
_SPARKS_OWN = frozenset(("checkpointlocation", "queryname", "provider", "owner", "location"))
# CREATE TABLE passes each option twice, once with this prefix.
TABLE_PREFIX = "option."


@dataclass(frozen=True)
class Option:
    """Definition of one option of a Spark source or sink.

    Attributes:
        name: Name as documented; Spark ignores its case.
        parse: Converts the text to a value; raises ValueError or SettingsError.
        default: Text that is parsed if the option is not given; None leaves it unset.
        says: One-line description for the documentation.
        aliases: Other accepted names.
    """

    name: str
    parse: Callable[[str], Any]
    default: str | None
    says: str
    aliases: tuple[str, ...] = ()


def read_options(
    given: Mapping[str, str], known: Sequence[Option], others: Sequence[Option] = ()
) -> dict[str, Any]:
    """Parse options and return the value of every known one by name; None if neither given nor defaulted.

    Args:
        given: Options as the user wrote them.
        known: Options of this side, source or sink.
        others: Options of the other side, which are ignored, as are those that Spark itself adds.

    Raises:
        SettingsError: A name is unknown, a value is invalid, or one option has different values under two names.
    """
    by_name = {
        name.lower(): option for option in known for name in (option.name, *option.aliases)
    }
    passed_over = _SPARKS_OWN | {name.lower() for name in _spelt(others)}
    texts: dict[str, str] = {}
    for spelt, text in given.items():
        name = spelt.lower().removeprefix(TABLE_PREFIX)
        option = by_name.get(name)
        if option is None:
            if name not in passed_over:
                raise SettingsError(
                    f"unknown option {in_quotes(spelt)}{nearest(name, _spelt(known))}"
                )
            continue
        if texts.setdefault(option.name, text) != text:
            raise SettingsError(f"option '{option.name}' is given twice with different values")
    return {
        option.name: _value(option, texts.get(option.name, option.default)) for option in known
    }


def _spelt(known: Sequence[Option]) -> list[str]:
    return [name for option in known for name in (option.name, *option.aliases)]


def _value(option: Option, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return option.parse(text)
    except ValueError as error:
        raise SettingsError(f"option {in_quotes(option.name)}: {error}") from error


def whole(least: int = 0, most: int = 2**63 - 1) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least` to `most`, both inclusive; it raises ValueError for other text."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"{in_quotes(text)} is not a whole number") from None
        if not least <= number <= most:
            raise ValueError(f"{number} is not from {least} to {most}")
        return number

    return parse


def truth(text: str) -> bool:
    """Parse `true` or `false`, ignoring case; raise ValueError for any other text."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"{in_quotes(text)} is neither true nor false")
    return text.strip().lower() == "true"


def one_of(*words: str) -> Callable[[str], str]:
    """Return a parser that accepts one of `words`, ignoring case, and returns it as in `words`, or raises ValueError."""
    lowered = {word.lower(): word for word in words}

    def parse(text: str) -> str:
        word = lowered.get(text.strip().lower())
        if word is None:
            raise ValueError(f"{in_quotes(text)} is not one of {', '.join(words)}")
        return word

    return parse


def words(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list like "topic, body" into a tuple, without empty entries."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


_UNITS_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


# 1973-03-03 and the year 33658 in ms. As seconds, the first number would be the year 5138.
_MOMENT_LEAST, _MOMENT_MOST = 10**11, 10**15


def moment_fault(ms: int) -> str | None:
    """Return None if a number is 0 or a plausible time in ms since 1970 (years 1973 to 33658), or else an error text.

    A time given in seconds or microseconds would otherwise silently select all messages or none.
    """
    if ms == 0 or _MOMENT_LEAST <= ms < _MOMENT_MOST:
        return None
    if ms < 0:
        return f"{ms} is not a time; times are ms since 1970"
    if ms >= _MOMENT_MOST:
        right = ms // 1000 if ms < _MOMENT_MOST * 1000 else ms // 1_000_000
        unit = "microseconds" if ms < _MOMENT_MOST * 1000 else "nanoseconds"
        return f"{ms} is not a time in ms since 1970; is it in {unit}? In ms it is {right}"
    day = datetime.fromtimestamp(ms / 1000, UTC).date()
    seconds = f"; is it in seconds? In ms it is {ms}000" if ms >= 10**8 else ""
    return f"{ms} ms since 1970 is {day}, which is too early for a message{seconds}"


def moment(text: str) -> int:
    """Parse a time in ms since 1970; raise ValueError if the text is not a number, or not plausible in this unit."""
    try:
        ms = whole()(text)
    except ValueError:
        if (told := _as_ms(text)) is None:
            raise
        raise ValueError(
            f"{in_quotes(text)} is not a number; times are in ms since 1970, here {told}"
        ) from None
    if fault := moment_fault(ms):
        raise ValueError(fault)
    return ms


def _as_ms(text: str) -> int | None:
    """Convert an ISO 8601 text (local time unless it has a zone) to ms since 1970, or return None if it is invalid."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def time_ms(text: str, what: str) -> int:
    """Convert a time to ms since 1970: such a number, or ISO 8601 (local time unless it has a zone).

    Raises:
        SettingsError: The text is neither, or no plausible time of a message; the error names the option `what`.
    """
    ms = int(text) if text.isdecimal() else _as_ms(text)
    if ms is None:
        raise SettingsError(
            f"{what} {in_quotes(text)} is not a time; write it like 2026-05-01T12:00, or in ms since 1970"
        )
    if fault := moment_fault(ms):
        raise SettingsError(f"{what}: {fault}")
    return ms


def size(text: str) -> int:
    """Parse a size above 0 like "64m", "1g", "500k" (k: 1024) or "100" (bytes) to bytes; ValueError for other text."""
    word = text.strip().lower().removesuffix("b")
    digits = word.rstrip("kmg")
    unit = word[len(digits) :]
    if not digits.isdecimal() or unit not in _UNITS_BYTES or int(digits) == 0:
        raise ValueError(f"{in_quotes(text)} is not a size; write it like 500k, 64m or 1g")
    return int(digits) * _UNITS_BYTES[unit]


def name_servers(text: str) -> tuple[str, ...]:
    """Parse nameserver addresses "host:port", separated by `;` or `,`; raise ValueError for none or an invalid one."""
    addresses = tuple(
        part.strip() for part in text.replace(",", ";").split(";") if part.strip()
    )
    if not addresses:
        raise ValueError("it has no address; write it like localhost:9876")
    for address in addresses:
        try:
            split_address(address)
        except ValueError:
            raise ValueError(
                f"{in_quotes(address)} is not an address; write it like localhost:9876, with a port from 1 to {PORT_MAX}"
            ) from None
    return addresses


def text(given: str) -> str:
    """Return any text unchanged: the parser of options that accept everything."""
    return given


def group(given: str) -> str:
    """Return the name of a consumer or producer group; raise ValueError if it is not allowed."""
    fault = group_fault(given)
    if fault is not None:
        raise ValueError(fault)
    return given


NAME_SERVER = Option(
    "nameServer",
    name_servers,
    None,
    "Nameserver addresses, `host:port`, several separated by `;`. Default: NAMESRV_ADDR in the environment of the driver; one of the two is required.",
    ("namesrvAddr", "rocketmq.namesrvAddr", "rocketmq.nameServer"),
)  # fmt: skip
NAME_SERVERS_VARIABLE = "NAMESRV_ADDR"  # RocketMQ's clients and tools use the same variable.


def name_servers_of(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the nameservers of the option, or else of NAMESRV_ADDR; SettingsError if neither is set or the latter invalid."""
    given: tuple[str, ...] | None = value[NAME_SERVER.name]
    if given is not None:
        return given
    found = os.environ.get(NAME_SERVERS_VARIABLE)
    if not found:
        raise SettingsError(
            f"option {in_quotes(NAME_SERVER.name)} is required, e.g. "
            f'.option("{NAME_SERVER.name}", "localhost:9876"), or {NAME_SERVERS_VARIABLE} in the '
            "environment of the driver when Spark starts"
        )
    try:
        return name_servers(found)
    except ValueError as error:
        raise SettingsError(f"{NAME_SERVERS_VARIABLE} in the environment: {error}") from error


def _namespace(given: str) -> str:
    if "%" in given or (given and topic_fault(given) is not None):
        raise ValueError(f"{in_quotes(given)} is not a namespace; use letters, digits, - and _")
    return given


def _not_built(what: str) -> Callable[[str], None]:
    """Return a parser that rejects any value of an option that this client does not support yet, by a ValueError.

    Ignoring the option could send requests that the broker refuses or, worse, accepts for the wrong unit.
    """

    def refuse(_text: str) -> None:
        raise ValueError(f"{what} is not implemented yet; remove the option")

    return refuse


# Settings passed on to the client, under the names that RocketMQ's users know (ClientConfig,
# AclClientRPCHook and TlsSystemConfig of RocketMQ 5.3.3).
PASSED_ON = (
    Option("rocketmq.namespace", _namespace, "", "The namespace: the broker stores topics and groups with it as a prefix; options and columns have the names without it."),
    Option("rocketmq.accessKey", text, None, "The user that signs requests, for clusters with access control. Default: COMETMQ_ACCESS_KEY in the environment of driver and executors."),
    Option("rocketmq.secretKey", text, None, "The secret key of that user. Default: COMETMQ_SECRET_KEY."),
    Option("rocketmq.securityToken", text, None, "The token of temporary credentials. Default: COMETMQ_SECURITY_TOKEN."),
    Option("rocketmq.tls.enable", truth, "false", "Encrypted connections; the servers' certificates and host names are checked. Also COMETMQ_TLS=true in the environment of driver and executors."),
    Option("rocketmq.tls.caFile", text, None, "The certificate authorities of the servers, a PEM file on driver and executors. Default: those that the machine trusts."),
    Option("rocketmq.tls.certFile", text, None, "The certificate of the client, if servers require one."),
    Option("rocketmq.tls.keyFile", text, None, "The private key of that certificate."),
    Option("rocketmq.unitName", _not_built("the name of a unit"), None, "For clusters with units. Not implemented yet: setting it is an error."),
)  # fmt: skip


def credentials_of(value: Mapping[str, Any]) -> Credentials | None:
    """Return the credentials in the options; raise SettingsError if only one of the two keys is given.

    None without keys: the client then uses those of the environment, if there are any.
    """
    access_key, secret_key = value["rocketmq.accessKey"], value["rocketmq.secretKey"]
    if not access_key and not secret_key:
        return None
    if not access_key or not secret_key:
        raise SettingsError(
            "options 'rocketmq.accessKey' and 'rocketmq.secretKey' belong together: set both, or neither"
        )
    return Credentials(access_key, secret_key, value["rocketmq.securityToken"] or None)


def tls_of(value: Mapping[str, Any]) -> TlsSettings | None:
    """Return the TLS settings in the options; raise SettingsError if a TLS file is named without enabling TLS.

    None if the options do not enable TLS: the client then follows the environment (COMETMQ_TLS).
    """
    files = [value[f"rocketmq.tls.{name}"] for name in ("caFile", "certFile", "keyFile")]
    if value["rocketmq.tls.enable"]:
        return TlsSettings(*files)
    if any(files):
        raise SettingsError(
            "a file for TLS is set, but option 'rocketmq.tls.enable' is not true; set it to true, or remove the file"
        )
    return None


def require(value: Mapping[str, Any], name: str, example: str) -> None:
    """Raise SettingsError if the option `name` is not given; the message shows `example` as a value."""
    if value[name] is None:
        raise SettingsError(
            f'option {in_quotes(name)} is required, e.g. .option("{name}", "{example}")'
        )
