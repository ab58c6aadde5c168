"""Settings of a broker for replication: RocketMQ's keys, and three of CometMQ only."""

from ipaddress import ip_network

from cometmq.broker.settings.store_keys import StoreKeys
from cometmq.codec.replication import FRAME_BODY_MAX
from cometmq.model.address import PORT_MAX, split_address, without_brackets
from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.settings import setting


@dataclass(frozen=True, slots=True)
class ReplicaKeys(StoreKeys):
    """Settings of replication: keys of RocketMQ 5.3.3, as far as supported, and three of CometMQ only.

    Attributes:
        ha_port: the port from which slaves copy the log; 0: listenPort + 1.
        ha_master: a slave's master, `ip:port` of its HA port; without it the nameservers are asked.
        ha_allowed: addresses and networks (10.0.0.0/8), separated by commas, that may copy the log in addition to the
            members known to a nameserver; with access control only these may, unless members prove more than their
            address; not a key of RocketMQ.
        ha_secret_file: a file with a secret that members must prove to know, readable by its owner only; Java members
            cannot; not a key of RocketMQ.
        ha_heartbeat_ms: interval of heartbeats on an idle connection, ms.
        ha_silence_ms: a connection that is silent for longer is closed, ms; must exceed `haSendHeartbeatInterval`.
        ha_frame_size: most bytes of the log per frame; differs: 32 KiB in RocketMQ.
        is_ha_rate_bound: limit the rate to each slave to `maxHaTransferByteInSecond`.
        ha_rate_max: most bytes of the log per second for each slave; applied evenly, not at the start of each second.
        ha_catch_up_rate: rate limit for a slave, or a member of a group that elects its leader, that lacks more than 32 MiB
            while producers send and do not wait for it, bytes per second; if that is more, the log's mean growth in the last
            minute plus a quarter of this value; 0: no limit; not a key of RocketMQ.
        ha_gap_max: a slave that lacks this many bytes is not in sync.
        slave_timeout_ms: a send that waits longer for slaves is answered FLUSH_SLAVE_TIMEOUT, ms; if too few are in sync, SLAVE_NOT_AVAILABLE at once.
        replicas: number of members of the group, including the master; only compared with `inSyncReplicas`.
        replicas_needed: with SYNC_MASTER, number of members, including the master, that must have a send before it is
            answered; the default is 2 (promised by 4.9; 5.3.3 has 1).
        replicas_least: if fewer members are in sync, sends that wait for them are refused.
        is_need_adapted: `inSyncReplicas` falls to the number of members in sync, down to `minInSyncReplicas`.
    """

    ha_port: int = setting(
        0,
        key="haListenPort",
        least=0,
        most=PORT_MAX,
        differs="not opened if no slave could be accepted, that is without `namesrvAddr` and `haAllowedAddresses`",
    )
    ha_master: str | None = setting(None, key="haMasterAddress")
    ha_allowed: str = setting("", key="haAllowedAddresses")
    ha_secret_file: str | None = setting(None)
    ha_heartbeat_ms: int = setting(5_000, key="haSendHeartbeatInterval", least=1)
    ha_silence_ms: int = setting(20_000, key="haHousekeepingInterval", least=1)
    ha_frame_size: int = setting(
        512 << 10, key="haTransferBatchSize", least=1, most=FRAME_BODY_MAX
    )
    is_ha_rate_bound: bool = setting(
        default=False,
        key="haFlowControlEnable",
        is_remote=True,
        differs="RocketMQ 5.3.3 only counts the 12 bytes before each frame, so its limit has no effect",
    )
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
    replicas_needed: int | None = setting(
        None, key="inSyncReplicas", least=1, is_remote=True, differs="a member is counted once"
    )
    replicas_least: int = setting(1, key="minInSyncReplicas", least=1)
    is_need_adapted: bool = setting(default=False, key="enableAutoInSyncReplicas")

    def check_replicas(self) -> None:
        """Refuse settings of replication that cannot work.

        Raises:
            SettingsError: Numbers of members contradict, connections would time out, or an address is invalid.
        """
        total, needed = self.replicas, self.replicas_needed
        if total is not None and needed is not None and needed > total:
            raise SettingsError(
                f"inSyncReplicas={needed}: the broker group has totalReplicas={total} members, including the "
                f"master, so sends would never be acknowledged; write at most {total}"
            )
        if needed is not None and self.replicas_least > needed:
            raise SettingsError(
                f"minInSyncReplicas={self.replicas_least} is more than inSyncReplicas={needed}; write "
                f"at most {needed}"
            )
        if self.ha_silence_ms <= self.ha_heartbeat_ms:
            raise SettingsError(
                f"haHousekeepingInterval={self.ha_silence_ms}: heartbeats are sent every "
                f"haSendHeartbeatInterval={self.ha_heartbeat_ms} ms, so idle connections would be closed; "
                f"write {self.ha_heartbeat_ms * 2} or more"
            )
        try:
            if self.ha_master:
                split_address(self.ha_master)
        except ValueError:
            raise SettingsError(
                f"haMasterAddress={self.ha_master}: it must be ip:port, the address of the master and its "
                "haListenPort (listenPort + 1 there)"
            ) from None
        for part in split_addresses(self.ha_allowed):
            try:
                ip_network(part)
            except ValueError as error:
                raise SettingsError(
                    f"haAllowedAddresses={self.ha_allowed}: {part} is neither an IP address nor a network: {error}"
                ) from None


def split_addresses(text: str) -> list[str]:
    """Split a list of addresses at commas or semicolons, without empty parts and the brackets of IPv6."""
    parts = (part.strip() for part in text.replace(";", ",").split(","))
    return [without_brackets(part) for part in parts if part]
