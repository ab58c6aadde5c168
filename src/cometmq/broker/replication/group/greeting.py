"""The greeting by which two members of a group recognize each other when one connects to the other.

| sender | frame |
| --- | --- |
| the member that was connected to | `challenge`: its group and id, and random bytes |
| the one that connected | `hello`: its group, id, number of its run, its broker's address, random bytes, and a proof |
| the member that was connected to | `welcome` with a proof, the places of all members with the offset and the term from which they apply, or `refusal` with the reason |

With haSecretFile, each proves that it knows the secret (`codec.replication.proof_of`).
"""

import secrets
from typing import NamedTuple, Self

from cometmq.codec.replication import CHANCE_SIZE, is_proof, proof_of
from cometmq.model.errors import CodecError, LinkError
from cometmq.replication.group.group_log import GroupLog
from cometmq.replication.group.messages import MemberPlace
from cometmq.replication.group.wire import (
    VERSION,
    Content,
    GroupFrame,
    encode_frame,
    read_places,
)


class Unlisted(LinkError):
    """A member refuses another one because its list of the members does not have it."""


class OwnGreeting(NamedTuple):
    """The data that a member sends others of itself.

    Attributes:
        group: Name of its group.
        own: Its id.
        run: Number of its run.
        address: "ip:port" of its broker, for requests.
        secret: Content of haSecretFile; None if it has none.
    """

    group: str
    own: str
    run: int
    address: str
    secret: bytes | None


class PeerHello(NamedTuple):
    """The data of a member that connects: its id, the number of its run, and "ip:port" of its broker."""

    member: str
    run: int
    address: str


class KnownPlaces(NamedTuple):
    """The places of all members, as a member knows them.

    Attributes:
        places: Addresses and ids; empty while dLegerPeers applies.
        since: Physical offset of the change of members from which they apply; 0 before the first change.
        term: Term of that change; if retention has deleted its bytes, that of the log's beginning.
    """

    places: tuple[MemberPlace, ...] = ()
    since: int = 0
    term: int = 0

    @classmethod
    def of(cls, log: GroupLog) -> Self:
        """Return the places in a member's log."""
        since = log.memberships.start_of_last()
        term = log.terms.before(max(since + 1, log.begin))
        return cls(log.membership.places, since, term)

    def is_older(self, log: GroupLog) -> bool:
        """Return whether a member's log has a later change that is committed; the term decides first, as logs may have parted."""
        own = KnownPlaces.of(log)
        return own.since < log.commit and (self.term, self.since) < (own.term, own.since)


class Challenge:
    """The greeting from the side of the member that was connected to."""

    def __init__(self, own: OwnGreeting) -> None:
        self._own = own
        self._chance = secrets.token_bytes(CHANCE_SIZE)

    def challenge(self) -> list[Content]:
        """Return the frame that begins the greeting."""
        own = self._own
        return encode_frame(
            {
                "type": "challenge",
                "version": VERSION,
                "group": own.group,
                "selfId": own.own,
                "chance": self._chance.hex(),
            }
        )

    def hello(
        self, frame: GroupFrame, members: frozenset[str], known: KnownPlaces
    ) -> tuple[PeerHello, list[Content]]:
        """Check the hello of the other side; return its data, and the welcome to send.

        Raises:
            CodecError: The frame is no hello.
            Unlisted: The other side is no other member, by this member's list.
            LinkError: It is no member of this group, or does not know the secret.
        """
        if frame.type != "hello":
            raise CodecError(f"a frame of the type {frame.type} came in place of a hello")
        of, own = frame.header, self._own
        peer = PeerHello(of.text("selfId"), of.int64("run"), of.text("address"))
        if of.text("group") != own.group:
            raise LinkError(
                f"it is a member of the group {of.text('group')}, not of {own.group}"
            )
        if peer.member not in members or peer.member == own.own:
            raise Unlisted(
                f"the group has no other member {peer.member}; cometmq cluster member add adds one"
            )
        theirs = _bytes(of.text("chance"))
        said = _said(own.group, peer.member, own.own, str(peer.run), peer.address)
        proof = _bytes(of.text("proof"))
        if not is_proof(own.secret, proof, b"member", self._chance, theirs, said):
            raise LinkError("it does not know the secret in haSecretFile")
        mine = proof_of(own.secret, b"peer", self._chance, theirs, said)
        return peer, encode_frame(
            {
                "type": "welcome",
                "proof": mine.hex(),
                "places": [*map(list, known.places)],
                "since": known.since,
                "sinceTerm": known.term,
            }
        )


class Hello:
    """The greeting from the side of the member that connects to `peer`.

    Attributes:
        known: The places of the members, as the peer knows them.
    """

    def __init__(self, own: OwnGreeting, peer: str) -> None:
        self._own = own
        self._peer = peer
        self.known = KnownPlaces()
        self._chance = secrets.token_bytes(CHANCE_SIZE)
        self._theirs = b""

    def answer(self, frame: GroupFrame) -> list[Content] | None:
        """Return the answer to a frame; None if the greeting is over, and messages may be sent.

        Raises:
            CodecError: The frame does not belong to a greeting.
            Unlisted: The peer's list of the members does not have this member.
            LinkError: The other side is not the peer, or refuses this member for the reason in the text.
        """
        of = frame.header
        if frame.type == "challenge":
            return self._hello(
                of.text("group"), of.text("selfId"), of.int32("version"), of.text("chance")
            )
        if frame.type == "refusal":
            kind = Unlisted if of.flag("isUnlisted", default=False) else LinkError
            raise kind(f"it refuses this member: {of.text('why')}")
        if frame.type != "welcome" or not self._theirs:
            raise CodecError(f"a frame of the type {frame.type} came in place of a greeting")
        if not is_proof(
            self._own.secret,
            _bytes(of.text("proof")),
            b"peer",
            self._theirs,
            self._chance,
            self._said,
        ):
            raise LinkError("it does not know the secret in haSecretFile")
        self.known = KnownPlaces(
            read_places(of, "places"), of.int64("since", 0), of.int64("sinceTerm", 0)
        )
        return None

    def _hello(self, group: str, peer: str, version: int, chance: str) -> list[Content]:
        own = self._own
        if version != VERSION:
            raise LinkError(
                f"it uses version {version} of the protocol, and this member {VERSION}"
            )
        if (group, peer) != (own.group, self._peer):
            raise LinkError(
                f"member {peer} of the group {group} answers there, not {self._peer} of {own.group}; correct dLegerPeers"
            )
        self._theirs = _bytes(chance)
        proof = proof_of(own.secret, b"member", self._theirs, self._chance, self._said)
        return encode_frame(
            {
                "type": "hello",
                "group": own.group,
                "selfId": own.own,
                "run": own.run,
                "address": own.address,
                "chance": self._chance.hex(),
                "proof": proof.hex(),
            }
        )

    @property
    def _said(self) -> bytes:
        own = self._own
        return _said(own.group, own.own, self._peer, str(own.run), own.address)


def refusal(why: CodecError | LinkError) -> list[Content]:
    """Return the frame that refuses a connection."""
    is_unlisted = isinstance(why, Unlisted)
    return encode_frame({"type": "refusal", "why": str(why)[:500], "isUnlisted": is_unlisted})


def _said(*parts: str) -> bytes:
    return b"\0".join(part.encode() for part in parts)


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise CodecError("random bytes and proofs must be hexadecimal") from None
