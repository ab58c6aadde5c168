"""Settings of a broker that belongs to a group which elects its leader: DLedger's keys of RocketMQ."""

from typing import NamedTuple

from cometmq.broker.settings.replica_keys import ReplicaKeys
from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.settings import setting
from cometmq.replication.group.messages import VOTERS_MAX, split_place

_VOTERS_MIN = 3
_EXAMPLE = "dLegerPeers=n0-10.0.0.1:40911;n1-10.0.0.2:40911;n2-10.0.0.3:40911"


class PeerAddress(NamedTuple):
    """Host and port from which a member of a group serves the other members."""

    host: str
    port: int


def split_peer(text: str) -> tuple[str, PeerAddress]:
    """Return the id and the address in `ID-HOST:PORT`; raise ValueError if it has another form or one cannot be used."""
    name, _, address = text.partition("-")
    return name, PeerAddress(*split_place(name, address))


@dataclass(frozen=True, slots=True)
class GroupKeys(ReplicaKeys):
    """Settings of a group that elects its leader: keys of RocketMQ 5.3.3.

    Attributes:
        is_elected: the broker is a member of a group that elects its leader; `brokerId` and `brokerRole` follow from the
            election; differs: the group does not use the files and the protocol of DLedger.
        elected_group: the name of the group; differs: without it the broker name.
        peers: all members with the addresses from which they serve each other, `ID-HOST:PORT;ID-HOST:PORT`; three or five;
            once `cometmq cluster member` has changed them, the list in the log applies.
        self_id: the id of this member in `dLegerPeers`.
        preferred_leader: the member that is to lead whenever it has the whole log; the same on all members.
    """

    is_elected: bool = setting(default=False, key="enableDLegerCommitLog")
    elected_group: str = setting("", key="dLegerGroup")
    peers: str = setting("", key="dLegerPeers")
    self_id: str = setting("", key="dLegerSelfId")
    preferred_leader: str = setting("", key="preferredLeaderId")

    def peer_addresses(self) -> dict[str, PeerAddress]:
        """Return the members of `dLegerPeers` by id, in its order.

        Raises:
            SettingsError: The text is no list of members, or has one twice.
        """
        found: dict[str, PeerAddress] = {}
        for part in filter(None, (each.strip() for each in self.peers.split(";"))):
            if "," in part:
                raise self._wrong_peers(
                    f"members are separated by ; and not by a comma; write for example {_EXAMPLE}"
                )
            try:
                name, place = split_peer(part)
            except ValueError as error:
                raise self._wrong_peers(
                    f"{part} is not ID-HOST:PORT ({error}); write for example {_EXAMPLE}"
                ) from None
            if name in found:
                raise self._wrong_peers(f"{part}: each member needs an id of its own")
            if place in found.values():
                raise self._wrong_peers(f"{part}: another member has the same address")
            found[name] = place
        return found

    def check_group(self) -> None:
        """Refuse a member of a group that elects its leader if its list of members cannot work.

        Raises:
            SettingsError: The members are not three to nine with different ids and addresses, or this one or the
                preferred leader, if one is set, is not among them.
        """
        if not self.is_elected:
            return
        members = self.peer_addresses()
        if not _VOTERS_MIN <= len(members) <= VOTERS_MAX:
            raise self._wrong_peers(
                f"it has {len(members)} members, of which a majority must answer; write three, for example {_EXAMPLE}"
            )
        ids = ", ".join(members)
        if self.self_id not in members:
            raise SettingsError(
                f"dLegerSelfId={self.self_id}: dLegerPeers has the members {ids}; write dLegerSelfId={next(iter(members))}, "
                "or the id of this broker"
            )
        if self.preferred_leader and self.preferred_leader not in members:
            raise SettingsError(
                f"preferredLeaderId={self.preferred_leader}: dLegerPeers has the members {ids}; write one of them, or "
                "remove the setting"
            )

    def group_hints(self) -> list[str]:
        """Return a warning if the number of members is even (one fewer would survive as many losses), else none."""
        count = len(self.peer_addresses()) if self.is_elected else 1
        if count % 2:
            return []
        hint = (
            f"dLegerPeers={self.peers}: {count} members survive the loss of no more than {count - 1} would; write "
            f"{count - 1} or {count + 1}"
        )
        return [hint]

    def _wrong_peers(self, why: str) -> SettingsError:
        return SettingsError(f"dLegerPeers={self.peers}: {why}")
