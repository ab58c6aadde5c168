"""The JSON coding of command headers, the default of RocketMQ clients.

A header is a JSON object with code, flag, language, opaque, version, remark, extFields and serializeTypeCurrentRPC.
Readers accept any key order, unknown keys, missing or null extFields and any values in them (docs/format/remoting.md).
"""

from typing import Any

import orjson

from cometmq.kernel import rows
from cometmq.model.codes import Language
from cometmq.model.errors import CodecError

LANGUAGES = {language.name: int(language) for language in Language}
_LANGUAGE_NAMES = {int(language): language.name for language in Language}
_OTHER = int(Language.OTHER)

JSON = 0  # Number of this coding in a frame.

# code, flag, opaque, language, version, remark, fields
Header = tuple[int, int, int, int, int, str | None, dict[str, str]]
# The same, followed by body and header coding: a command on the hot path.
RawCommand = rows.RawCommand


def decode_json_command(header: bytes, body: bytes) -> RawCommand:
    """Decode a JSON header and combine it with the body to a command.

    Raises:
        CodecError: The header is no JSON object with a code, or a number, non-empty extFields or the remark has a wrong type.
    """
    # Fast path for the headers of all official clients: all keys, plain types, no remark. Decoding takes as much of a
    # broker's time as storing the message, hence the two paths (bench/README.md).
    try:
        values = orjson.loads(header)
        code, flag, opaque, version = (
            values["code"], values["flag"], values["opaque"], values["version"],
        )  # fmt: skip
        fields, language = values["extFields"], LANGUAGES[values["language"]]
        if (
            code.__class__ is flag.__class__ is opaque.__class__ is version.__class__ is int
            and fields.__class__ is dict
            and "remark" not in values
        ):
            return code, flag, opaque, language, version, None, fields, body, JSON
    except (ValueError, TypeError, KeyError):
        pass
    return (*_decode_carefully(header), body, JSON)


def _decode_carefully(header: bytes) -> Header:
    """Decode a header, with defaults for keys other than the code; raises CodecError if it is malformed."""
    try:
        values = orjson.loads(header)
        code = values["code"]
        flag = values.get("flag", 0)
        opaque = values.get("opaque", 0)
        version = values.get("version", 0)
        fields = values.get("extFields") or {}
        remark = values.get("remark")
        language = LANGUAGES.get(values.get("language"), _OTHER)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CodecError(
            f"the header is not JSON with a code: {error}; is the peer a RocketMQ program?"
        ) from error
    if not (type(code) is type(flag) is type(opaque) is type(version) is int):
        raise CodecError("code, flag, opaque and version of a header must be whole numbers")
    if not isinstance(fields, dict) or not (remark is None or isinstance(remark, str)):
        raise CodecError("extFields of a header must be an object and remark a text")
    return code, flag, opaque, language, version, remark, fields


def encode_json_header(header: Header) -> bytes:
    """Encode a JSON header from (code, flag, opaque, language, version, remark, fields).

    Its keys are in alphabetical order, the fields in the given one. Without fields or remark, their key is omitted.
    """
    code, flag, opaque, language, version, remark, fields = header
    values: dict[str, Any] = {
        "code": code,
        "extFields": fields,
        "flag": flag,
        "language": _LANGUAGE_NAMES.get(language, "OTHER"),
        "opaque": opaque,
        "remark": remark,
        "serializeTypeCurrentRPC": "JSON",
        "version": version,
    }
    if not fields:
        del values["extFields"]
    if remark is None:
        del values["remark"]
    return orjson.dumps(values)
