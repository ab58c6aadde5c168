"""The JSON coding of a command's header: what every RocketMQ client speaks by default.

A header is one JSON object: code, flag, language, opaque, version, remark, extFields and
serializeTypeCurrentRPC. Readers take any key order, unknown keys, missing or null extFields and
values of extFields that are no text (docs/format/remoting.md).
"""

from typing import Any

import orjson

from cometmq.kernel import rows
from cometmq.model.codes import Language
from cometmq.model.errors import CodecError

LANGUAGES = {language.name: int(language) for language in Language}
_LANGUAGE_NAMES = {int(language): language.name for language in Language}
_OTHER = int(Language.OTHER)

JSON = 0  # This coding's mark in a frame.

# code, flag, opaque, language, version, remark, fields
Header = tuple[int, int, int, int, int, str | None, dict[str, str]]
# The same, then body and header coding: a command on the hot path.
RawCommand = rows.RawCommand


def decode_json_command(header: bytes, body: bytes) -> RawCommand:
    """The command of a JSON header and the body behind it.

    Raises:
        CodecError: when it is no JSON object or a value has the wrong type.
    """
    # What every official client sends comes out here: all keys, plain types, no remark. It is as
    # much of a broker's time as storing the message is, hence the two ways (bench/README.md).
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
    """Any header: missing keys have their defaults, wrong ones are named."""
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
            f"no JSON header with a code: {error}; is this a RocketMQ peer?"
        ) from error
    if not (type(code) is type(flag) is type(opaque) is type(version) is int):
        raise CodecError("code, flag, opaque and version of a header must be whole numbers")
    if not isinstance(fields, dict) or not (remark is None or isinstance(remark, str)):
        raise CodecError("extFields of a header must be an object and remark a text")
    return code, flag, opaque, language, version, remark, fields


def encode_json_header(header: Header) -> bytes:
    """The JSON header of (code, flag, opaque, language, version, remark, fields), keys sorted."""
    code, flag, opaque, language, version, remark, fields = header
    values: dict[str, Any] = {"code": code}
    if fields:
        values["extFields"] = fields
    values["flag"] = flag
    values["language"] = _LANGUAGE_NAMES.get(language, "OTHER")
    values["opaque"] = opaque
    if remark is not None:
        values["remark"] = remark
    values["serializeTypeCurrentRPC"] = "JSON"
    values["version"] = version
    return orjson.dumps(values)
