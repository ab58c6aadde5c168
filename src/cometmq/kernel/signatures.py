"""Whether sends are signed, looked at in the bytes of a connection, before they are commands.

What the signature of a request is stands in `cometmq.codec.signature`. Here are sends alone, as official clients write and
sign them (`send_headers`): their fields, `AccessKey` and `Signature`. Whatever else there is ends what `taking` takes, and the
careful way asks about it. Compiled: `_signatures`.
"""

import hmac
from base64 import b64encode

from cometmq.kernel.send_headers import ACCESS_KEY, SIGNATURE, STRANGE, Header


class KnownSigner:
    """A user who must have signed the sends that are taken, and the topics to which he may send.

    Attributes:
        topics: their names; who asks for rights adds them.
        asked: of the send that ended a taking, and that he has signed, the topic that is none of them; None where it ended otherwise.
    """

    __slots__ = ("_secret", "_user", "asked", "topics")

    def __init__(self, user: bytes, secret: bytes) -> None:
        """No topic is known; `user` is his access key."""
        self.topics: set[bytes] = set()
        self.asked: bytes | None = None
        self._user = user
        self._secret = secret

    def passes(self, header: Header, body: bytes) -> bool:
        """Whether a send is signed by this user, and to a topic to which he may send."""
        fields = header.fields
        topic = fields.get(b"b")
        if topic is None or fields.get(ACCESS_KEY) != self._user:
            return False
        if STRANGE in fields or SIGNATURE not in fields:
            return False
        content = b"".join([*header.in_order(), body])
        made = b64encode(hmac.digest(self._secret, content, "sha1"))
        if not hmac.compare_digest(made, fields[SIGNATURE]):
            return False
        if topic not in self.topics:
            self.asked = topic
            return False
        return True
