"""The signature of a request: HMAC-SHA1 over the values of its fields and its body.

RocketMQ's AclClientRPCHook (4.9 and 5.3.3) puts `AccessKey`, and `SecurityToken` where there is one, among the fields of the
header, sorts all fields but `Signature` by their names, and signs their values, joined with nothing between, as UTF-8, and behind
them the body. The signature is Base64, in the field `Signature`. Neither the code, nor a time, nor a number is signed:
who has heard a request can send it again, so that only TLS helps against that.

Next: cometmq.codec.signer
"""

import hmac
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter

from cometmq.model.errors import CodecError

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105  The name of a field.
SIGNATURE = "Signature"
# Clients up to 4.9.3 add it behind the signature.
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"


def signature(secret: bytes, content: bytes) -> bytes:
    """The signature of a content, as it stands in a field."""
    return b64encode(hmac.digest(secret, content, "sha1"))


def signed_content(
    fields: Mapping[str, str], body: bytes, *, without: str | None = None
) -> bytes:
    """What is signed of a request.

    Args:
        fields: of its header; `Signature` is left out.
        body: behind it.
        without: another field that is left out.

    Raises:
        CodecError: a field is no text.
    """
    try:
        names = tuple(name for name in fields if name not in (SIGNATURE, without))
        values = _in_order(names)(fields) if names else ()
        return "".join(values).encode() + body
    except (TypeError, UnicodeEncodeError) as error:
        raise CodecError("a field of the header is no text, and cannot be signed") from error


@lru_cache(maxsize=512)  # A client's requests of a kind have the same fields.
def _in_order(names: tuple[str, ...]) -> Callable[[Mapping[str, str]], tuple[str, ...]]:
    # Java compares UTF-16.
    names = tuple(sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass")))
    if len(names) == 1:
        only = names[0]
        return lambda fields: (fields[only],)
    found: Callable[[Mapping[str, str]], tuple[str, ...]] = itemgetter(*names)
    return found
