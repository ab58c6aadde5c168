"""The protocol between a master and its slaves at the HA port.

| direction | bytes |
| --- | --- |
| slave to master | end of its log 8 |
| master to slave | physical offset 8, size 4, that many bytes of the log; size 0 is a heartbeat |

Big-endian. Source: DefaultHAConnection and DefaultHAClient of RocketMQ 5.3.3. Before it, between two
members that are ours (docs/design/0048):

| who | bytes |
| --- | --- |
| slave | where it begins 8, the same 8 |
| master | CMHA 4, version 2, flags 2, chance 32 |
| slave | CMHA 4, version 2, flags 2, broker id 8, chance 32, proof 32 |
| master | CMHA 4, version 2, verdict 2, oldest 8, end 8, flushed 8, file size 8, proof 32 |
"""

import hashlib
import hmac
from enum import IntEnum
from struct import Struct

MAGIC = b"CMHA"
VERSION = 1
CHANCE_SIZE = PROOF_SIZE = 32
NEEDS_PROOF = 1  # A flag of the challenge.

REPORT = Struct(">q")
FRAME_HEAD = Struct(">qi")
# DefaultHAClient.READ_MAX_BUFFER_SIZE, into which a frame must fit.
FRAME_BODY_MAX = (4 << 20) - FRAME_HEAD.size

CHALLENGE = Struct(">4shh32s")
REPLY = Struct(">4shhq32s32s")
WELCOME = Struct(">4shhqqqq32s")

NO_PROOF = bytes(PROOF_SIZE)


class Verdict(IntEnum):
    """The verdict of a master on a slave of ours."""

    WELCOME = 0
    NOT_PROVEN = 1


def proof_of(secret: bytes | None, who: bytes, *parts: bytes) -> bytes:
    """The proof that only a holder of the secret can make; zeros without a secret.

    Args:
        secret: the bytes of haSecretFile.
        who: `slave` or `master`, so that neither can send the other's proof back.
        parts: both chances, and all that is to be believed.
    """
    if secret is None:
        return NO_PROOF
    return hmac.new(secret, who + b"".join(parts), hashlib.sha256).digest()


def is_proof(secret: bytes | None, proof: bytes, who: bytes, *parts: bytes) -> bool:
    """Whether a proof is right; without a secret nothing is asked."""
    return secret is None or hmac.compare_digest(proof, proof_of(secret, who, *parts))
