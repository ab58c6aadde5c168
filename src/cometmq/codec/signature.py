"""The signature of a request: HMAC-SHA1 over the values of its fields and its body.

RocketMQ's AclClientRPCHook (4.9 and 5.3.3) puts `AccessKey`, and `SecurityToken` where there is one, among the fields of the
header, sorts all fields but `Signature` by their names, and signs their values, joined with nothing between, as UTF-8, and behind
them the body. The signature is Base64, in the field `Signature`. Neither the code, nor a time, nor a number is signed:
who has heard a request can send it again, so that only TLS helps against that.
"""

from binascii import b2a_base64
from collections.abc import Callable, Mapping
from hashlib import sha1
from operator import itemgetter
from typing import TYPE_CHECKING

from cometmq.model.bounded_cache import keep_short
from cometmq.model.errors import CodecError

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105  The name of a field.
SIGNATURE = "Signature"
# Clients up to 4.9.3 add it behind the signature.
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
_BLOCK_SIZE = 64  # Of SHA-1, bytes.


def signature(secret: bytes, content: bytes) -> bytes:
    """The signature of a content, as it stands in a field."""
    # By hand, of what is the same for all contents: half of the time of `hmac.digest`.
    inner, outer = _keyed(secret)
    inner, outer = inner.copy(), outer.copy()
    inner.update(content)
    outer.update(inner.digest())
    return b2a_base64(outer.digest(), newline=False)


@keep_short(4096, length_max=256)  # A password has at most 256 characters.
def _keyed(secret: bytes) -> "tuple[Hash, Hash]":
    """Both hashes of HMAC, behind the key (RFC 2104)."""
    if len(secret) > _BLOCK_SIZE:
        secret = sha1(secret).digest()  # noqa: S324  What the protocol signs with.
    block = secret.ljust(_BLOCK_SIZE, b"\0")
    inner, outer = (bytes(byte ^ pad for byte in block) for pad in (0x36, 0x5C))
    return sha1(inner), sha1(outer)  # noqa: S324


def signed_content(
    fields: Mapping[str, str], body: bytes, *, without: str | None = None
) -> bytes:
    """The bytes of a request that its signature covers.

    Args:
        fields: of its header; `Signature` is left out.
        body: behind it.
        without: another field that is left out.

    Raises:
        CodecError: a field is no text.
    """
    try:
        return "".join(_in_order(tuple(fields), without)(fields)).encode() + body
    except (TypeError, UnicodeEncodeError) as error:
        raise CodecError("a field of the header is no text, and cannot be signed") from error


@keep_short(
    512, length_max=1024, length_of=lambda names: len("".join(names))
)  # A client's requests of a kind have the same fields.
def _in_order(
    names: tuple[str, ...], without: str | None
) -> Callable[[Mapping[str, str]], tuple[str, ...]]:
    signed = [name for name in names if name not in (SIGNATURE, without)]
    # Java compares UTF-16.
    signed.sort(key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    if len(signed) < 2:
        return lambda fields: tuple(fields[name] for name in signed)
    found: Callable[[Mapping[str, str]], tuple[str, ...]] = itemgetter(*signed)
    return found
