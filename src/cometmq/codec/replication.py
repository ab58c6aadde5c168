"""The protocol between a master and its slaves on the HA port.

| direction | fields with their sizes in bytes |
| --- | --- |
| slave to master | first the offset from which it wants the log, later the one up to which it has it 8 |
| master to slave | physical offset 8, size 4, that many bytes of the log; size 0 is a heartbeat |

Numbers are big-endian. Source: DefaultHAConnection and DefaultHAClient of RocketMQ 5.3.3. If both are CometMQ, a
handshake comes first (docs/design/0048):

| sender | fields with their sizes in bytes |
| --- | --- |
| slave | its start offset 8, the same again 8 |
| master | CMHA 4, version 2, flags 2, random bytes 32 |
| slave | CMHA 4, version 2, flags 2, broker id 8, random bytes 32, proof 32 |
| master | CMHA 4, version 2, verdict 2, oldest offset 8, end offset 8, flushed offset 8, file size 8, proof 32 |
"""

import hashlib
import hmac
from enum import IntEnum
from struct import Struct

MAGIC = b"CMHA"
VERSION = 1
CHANCE_SIZE = PROOF_SIZE = 32
NEEDS_PROOF = 1  # Flag in the challenge.

REPORT = Struct(">q")
FRAME_HEAD = Struct(">qi")
# DefaultHAClient.READ_MAX_BUFFER_SIZE, which limits a whole frame.
FRAME_BODY_MAX = (4 << 20) - FRAME_HEAD.size

CHALLENGE = Struct(">4shh32s")
REPLY = Struct(">4shhq32s32s")
WELCOME = Struct(">4shhqqqq32s")

NO_PROOF = bytes(PROOF_SIZE)


class Verdict(IntEnum):
    """A master's decision about a slave's handshake: WELCOME, or NOT_PROVEN if the proof is wrong."""

    WELCOME = 0
    NOT_PROVEN = 1


def proof_of(secret: bytes | None, who: bytes, *parts: bytes) -> bytes:
    """Return the HMAC-SHA256 by which a side of the replication handshake proves that it knows the secret.

    The proof is zeros without a secret.

    Args:
        secret: Content of haSecretFile.
        who: `slave` or `master`, so that neither can replay the other's proof.
        parts: The random bytes of both sides, and all values to be authenticated.
    """
    if secret is None:
        return NO_PROOF
    return hmac.new(secret, who + b"".join(parts), hashlib.sha256).digest()


def is_proof(secret: bytes | None, proof: bytes, who: bytes, *parts: bytes) -> bool:
    """Return whether the proof in a replication handshake is valid; always true without a secret."""
    return secret is None or hmac.compare_digest(proof, proof_of(secret, who, *parts))
