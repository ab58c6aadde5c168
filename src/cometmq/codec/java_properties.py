r"""Conversion between Java properties files (`broker.conf`, `namesrv.conf`) and dicts of their keys and values.

These files are Latin-1 with `\uXXXX` escapes, as java.util.Properties reads them. Bodies of remote configuration
requests are written as UTF-8 without escapes, but read like files. The package javaproperties does the parsing.
"""

import re
from collections.abc import Mapping

from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CodecError, RequestError

# Not `str.splitlines`: a byte of UTF-8, read as Latin-1, may be its "next line".
_LINE_END = re.compile(r"\r\n|\r|\n")


def decode_java_properties(content: bytes) -> dict[str, str]:
    """Decode a properties file; the last value of a repeated key counts. Raises CodecError for an invalid escape."""
    import javaproperties  # Lazy: it loads XML and HTTP modules that most commands do not need.

    try:
        return dict(javaproperties.loads(content))
    except ValueError as error:
        raise CodecError(f"not a Java properties file: {error}") from None


def decode_changed_settings(body: bytes) -> dict[str, str]:
    """Decode the settings in a request to change them; raise RequestError (SYSTEM_ERROR) as RocketMQ answers a wrong body."""
    try:
        return decode_java_properties(body)
    except CodecError as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}"
        ) from None


def property_lines(content: bytes) -> dict[str, list[tuple[int, str]]]:
    """Return, by key of a properties file, the number (from 1) and the value of each line that sets it.

    Raises CodecError for an invalid escape.
    """
    from javaproperties import KeyValue, parse

    found: dict[str, list[tuple[int, str]]] = {}
    line = 1
    try:
        for part in parse(content):
            if isinstance(part, KeyValue):
                found.setdefault(part.key, []).append((line, part.value))
            line += len(_LINE_END.findall(part.source))
    except ValueError as error:
        raise CodecError(f"not a Java properties file: {error}") from None
    return found


def encode_java_properties(values: Mapping[str, str]) -> bytes:
    """Encode a Java properties file, without the time comment that Java writes."""
    import javaproperties

    return javaproperties.dumps(dict(values), timestamp=False).encode("latin-1")


def encode_properties_text(values: Mapping[str, str]) -> bytes:
    """Encode settings as in answers to GET_NAMESRV_CONFIG 319 and GET_BROKER_CONFIG 26 (MixAll.properties2String)."""
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()
