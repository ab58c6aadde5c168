r"""The text of a Java properties file (`broker.conf`, `namesrv.conf`) and its keys and values.

Such a file is Latin-1 with `\uXXXX` escapes, as java.util.Properties reads it; the bodies of remote
configuration have the same form without escapes. The parser is the package javaproperties.
"""

from collections.abc import Mapping

from cometmq.model.errors import CodecError


def decode_java_properties(content: bytes) -> dict[str, str]:
    """Keys and values; of a key that stands twice, the last.

    Raises:
        CodecError: an escape in it is broken.
    """
    import javaproperties  # Brings XML and HTTP, which a command that reads no such file does without.

    try:
        return dict(javaproperties.loads(content))
    except ValueError as error:
        raise CodecError(f"not a Java properties file: {error}") from None


def encode_java_properties(values: Mapping[str, str]) -> bytes:
    """A file that holds these values, without the comment that Java puts the time in."""
    import javaproperties

    return javaproperties.dumps(dict(values), timestamp=False).encode("latin-1")


def encode_properties_text(values: Mapping[str, str]) -> bytes:
    """The body of GET_NAMESRV_CONFIG 319 and GET_BROKER_CONFIG 26 (MixAll.properties2String)."""
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()
