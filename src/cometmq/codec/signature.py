"""The signature of a request: HMAC-SHA1 over the values of its header fields and its body.

RocketMQ's AclClientRPCHook (4.9 and 5.3.3) adds `AccessKey`, and `SecurityToken` if there is one, to the header fields.
The hook sorts all fields except `Signature` by name, joins their values without separators as UTF-8, appends the body,
and signs the result. The signature is put into the field `Signature` as Base64. Request code and opaque are not signed,
so an eavesdropper can replay a request unless TLS is used.
"""

from binascii import b2a_base64
from collections.abc import Callable, Mapping
from hashlib import sha1
from operator import itemgetter
from typing import TYPE_CHECKING

from cometmq.codec.fields import text_of
from cometmq.model.bounded_cache import keep_short
from cometmq.model.errors import CodecError

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105  Name of a field.
SIGNATURE = "Signature"
# Clients up to 4.9.3 add this field after signing.
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
_BLOCK_SIZE = 64  # Of SHA-1, in bytes.


def signature(secret: bytes, content: bytes) -> bytes:
    """Return the signature (HMAC-SHA1) of a request's signed content, as Base64."""
    # Caches the state after hashing the key, which takes half of the time of `hmac.digest`.
    inner, outer = _keyed(secret)
    inner, outer = inner.copy(), outer.copy()
    inner.update(content)
    outer.update(inner.digest())
    return b2a_base64(outer.digest(), newline=False)


@keep_short(4096, length_max=256)  # Passwords have at most 256 characters.
def _keyed(secret: bytes) -> "tuple[Hash, Hash]":
    """Return the inner and outer hash of HMAC after the key (RFC 2104)."""
    if len(secret) > _BLOCK_SIZE:
        secret = sha1(secret).digest()  # noqa: S324  Required by the protocol.
    block = secret.ljust(_BLOCK_SIZE, b"\0")
    inner, outer = (bytes(byte ^ pad for byte in block) for pad in (0x36, 0x5C))
    return sha1(inner), sha1(outer)  # noqa: S324


def signed_content(
    fields: Mapping[str, str], body: bytes, *, without: str | None = None
) -> bytes:
    """Return the bytes of a request that its signature covers: values of header fields, then the body.

    The field `Signature` is excluded, and the field `without`. Raises CodecError if a field is no valid string, number or
    boolean.
    """
    values = _in_order(tuple(fields), without)(fields)
    try:
        try:
            return "".join(values).encode() + body
        except TypeError:
            return "".join(map(_signed_text, values)).encode() + body
    except (TypeError, UnicodeEncodeError) as error:
        raise CodecError("a field of the header is not text and cannot be signed") from error


def _signed_text(value: object) -> str:
    if not isinstance(value, str | int):
        raise TypeError
    return text_of(value)


@keep_short(
    512, length_max=1024, length_of=lambda names: len("".join(names))
)  # Requests of one kind have the same fields.
def _in_order(
    names: tuple[str, ...], without: str | None
) -> Callable[[Mapping[str, str]], tuple[str, ...]]:
    signed = [name for name in names if name not in (SIGNATURE, without)]
    # Java compares strings as UTF-16.
    signed.sort(key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    if len(signed) < 2:
        return lambda fields: tuple(fields[name] for name in signed)
    found: Callable[[Mapping[str, str]], tuple[str, ...]] = itemgetter(*signed)
    return found
