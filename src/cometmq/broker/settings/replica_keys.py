"""Settings of a broker that concern its copies: RocketMQ's keys, and three of our own."""

from ipaddress import ip_network

from cometmq.broker.settings.store_keys import StoreKeys
from cometmq.codec.replication import FRAME_BODY_MAX
from cometmq.model.address import PORT_MAX, split_address, without_brackets
from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.settings import setting


@dataclass(frozen=True, slots=True)
class ReplicaKeys(StoreKeys):
    """HA of MessageStoreConfig of RocketMQ 5.3.3, as far as used.

    Attributes:
        ha_port: where slaves fetch the log; 0: listenPort + 1; differs: not taken where no slave can be
            known, without `namesrvAddr` and `haAllowedAddresses`.
        ha_master: a slave's master, `ip:port` of its HA port; without it what a nameserver says.
        ha_allowed: addresses and networks (10.0.0.0/8) that may fetch the log besides the members that
            a nameserver knows, with commas between; with access control instead of these, unless they prove more
            than their address; not a key of RocketMQ.
        ha_secret_file: a file with a secret that members prove to know, readable by its owner alone;
            Java members cannot; not a key of RocketMQ.
        ha_heartbeat_ms: a member that has nothing to say says so, ms.
        ha_silence_ms: a connection of which nothing came for longer is closed, ms; more than
            `haSendHeartbeatInterval`.
        ha_frame_size: most bytes of the log that are sent at once; differs: 32 KiB in RocketMQ.
        is_ha_rate_bound: a slave is sent `maxHaTransferByteInSecond` bytes of the log in a second at most;
            differs: 5.3.3 counts the 12 bytes before each frame alone, and so holds nobody back.
        ha_rate_max: so many, each slave's; evenly, not at the beginning of each second.
        ha_catch_up_rate: so many bytes a second a slave that lacks more than 32 MiB is sent while others send to an ASYNC_MASTER, or
            a quarter of it more than the log grew by in the mean of the last minute, where that is more; 0: as many as it takes; not a key of RocketMQ.
        ha_gap_max: a slave that lacks so many bytes is not in sync.
        slave_timeout_ms: after this long a send is answered FLUSH_SLAVE_TIMEOUT, ms.
        replicas: how many members the group has, the master counted; only compared with
            `inSyncReplicas`.
        replicas_needed: with SYNC_MASTER a send is answered when so many members have it, the
            master counted; differs: 2 where the file does not say (4.9 promised it, 5.3.3 has 1), and a
            member is counted once.
        replicas_least: with fewer in sync nothing that waits is stored.
        is_need_adapted: `inSyncReplicas` falls to the members that are in sync, down to
            `minInSyncReplicas`.
    """

    ha_port: int = setting(0, key="haListenPort", least=0, most=PORT_MAX)
    ha_master: str | None = setting(None, key="haMasterAddress")
    ha_allowed: str = setting("", key="haAllowedAddresses")
    ha_secret_file: str | None = setting(None)
    ha_heartbeat_ms: int = setting(5_000, key="haSendHeartbeatInterval", least=1)
    ha_silence_ms: int = setting(20_000, key="haHousekeepingInterval", least=1)
    ha_frame_size: int = setting(
        512 << 10, key="haTransferBatchSize", least=1, most=FRAME_BODY_MAX
    )
    is_ha_rate_bound: bool = setting(default=False, key="haFlowControlEnable", is_remote=True)
    ha_rate_max: int = setting(
        100 << 20,
        key="maxHaTransferByteInSecond",
        least=1,
        most=(1 << 63) - 1,  # Java's long.
        is_remote=True,
    )
    ha_catch_up_rate: int = setting(
        100 << 20, key="haCatchUpByteInSecond", least=0, most=(1 << 63) - 1, is_remote=True
    )
    ha_gap_max: int = setting(
        256 << 20, key="haMaxGapNotInSync", aliases=("haSlaveFallbehindMax",), least=1
    )
    slave_timeout_ms: int = setting(3_000, key="slaveTimeout", least=1, is_remote=True)
    replicas: int | None = setting(None, key="totalReplicas", least=1)
    replicas_needed: int | None = setting(None, key="inSyncReplicas", least=1, is_remote=True)
    replicas_least: int = setting(1, key="minInSyncReplicas", least=1)
    is_need_adapted: bool = setting(default=False, key="enableAutoInSyncReplicas")

    def check_replicas(self) -> None:
        """Refuse settings of replication that cannot work.

        Raises:
            SettingsError: More members are required than exist, each connection would time out, or an address is invalid.
        """
        total, needed = self.replicas, self.replicas_needed
        if total is not None and needed is not None and needed > total:
            raise SettingsError(
                f"inSyncReplicas={needed}: the group has totalReplicas={total} members, the master "
                f"counted, so no send would ever be answered; write {total} at most"
            )
        if needed is not None and self.replicas_least > needed:
            raise SettingsError(
                f"minInSyncReplicas={self.replicas_least}: inSyncReplicas={needed} is less; write "
                f"{needed} at most"
            )
        if self.ha_silence_ms <= self.ha_heartbeat_ms:
            raise SettingsError(
                f"haHousekeepingInterval={self.ha_silence_ms}: who has nothing to say says so each "
                f"haSendHeartbeatInterval={self.ha_heartbeat_ms} ms, so each connection would be closed; "
                f"write {self.ha_heartbeat_ms * 2} or more"
            )
        try:
            if self.ha_master:
                split_address(self.ha_master)
        except ValueError:
            raise SettingsError(
                f"haMasterAddress={self.ha_master}: it must be ip:port, the master's address and its "
                "haListenPort (listenPort + 1 there)"
            ) from None
        for part in split_addresses(self.ha_allowed):
            try:
                ip_network(part)
            except ValueError as error:
                raise SettingsError(
                    f"haAllowedAddresses={self.ha_allowed}: {part} is no IP address and no network: {error}"
                ) from None


def split_addresses(text: str) -> list[str]:
    """Split a list at commas or semicolons."""
    parts = (part.strip() for part in text.replace(";", ",").split(","))
    return [without_brackets(part) for part in parts if part]
