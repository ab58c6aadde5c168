"""Keys of RocketMQ's brokers (BrokerConfig and MessageStoreConfig of 5.3.3, some newer) that this broker does not support.

Missing features are listed in docs/compatibility.md; this has the messages for a file that requests them.
"""

from cometmq.model.unsupported import TLS, Unsupported, is_set

_ELSEWHERE = (
    "this broker keeps everything in RocketMQ's files and neither reads nor writes RocksDB, so what lies there would be "
    "missing; take the key out, with an empty storePathRootDir or one that was written without it"
)


def _is_rocksdb(text: str) -> bool:
    return text not in ("", "default")


UNSUPPORTED_KEYS = (
    # --- refused
    TLS,
    Unsupported(
        ("enableDLegerCommitLog",),
        "DLedger is not there yet, and a plain master on its directory would begin a log of its own; "
        "start RocketMQ with this file, or take the key out and name a storePathRootDir of its own",
    ),
    Unsupported(
        ("enableControllerMode",),
        "a controller is not asked yet, and this broker would be a master beside the one that it elects; "
        "start RocketMQ with this file, or take the key out and give the broker a brokerName of its own",
    ),
    Unsupported(
        ("enableSlaveActingMaster",),
        "no slave takes a lost master's place by itself yet; take the key out, and make a slave the master by hand "
        "(brokerRole and brokerId in its file, and a restart)",
    ),
    Unsupported(
        ("brokerConfigPaths", "brokerContainerIP"),
        "a BrokerContainer runs several brokers in one process, and this program runs one; start "
        "`cometmq broker` once for each of their files",
        asks=is_set,
    ),
    Unsupported(("storeType",), _ELSEWHERE, asks=_is_rocksdb),
    Unsupported(("configManagerVersion",), _ELSEWHERE, asks=lambda text: text.lower() == "v2"),
    Unsupported(
        ("timerRocksDBEnable", "transRocksDBEnable", "popConsumerKVServiceEnable"), _ELSEWHERE
    ),
    Unsupported(
        ("messageStorePlugIn", "tieredStoreEnable"),
        "there is no tiered storage yet, and messages that a tier keeps would be deleted with the log; take "
        "the key out, and raise fileReservedTime",
        asks=is_set,
    ),
    # --- warned of
    Unsupported(
        ("metricsExporterType",),
        "metrics are not written to the log; they are served at /metrics instead (PROM), and OTLP_GRPC sends them",
        asks=lambda text: text.upper() == "LOG",
        is_refused=False,
    ),
    Unsupported(
        ("metricsInDelta",),
        "totals are sent, which a collector turns into differences (cumulativetodelta)",
        is_refused=False,
    ),
    Unsupported(
        ("enableRemoteEscape", "duplicationEnable"),
        "no slave acts as a master",
        is_refused=False,
    ),
    Unsupported(
        ("coldCtrStrategyEnable",),
        "thresholds of cold reads do not adapt; set cgColdReadThreshold",
        is_refused=False,
    ),
    Unsupported(
        ("enableConsumeQueueExt",),
        "units of consumequeue_ext are read and not written; tags select as ever",
        is_refused=False,
    ),
    Unsupported(
        ("rocksdbCQDoubleWriteEnable",),
        "queues are written to RocketMQ's files only",
        is_refused=False,
    ),
    Unsupported(
        ("fetchNamesrvAddrByAddressServer",),
        "no address server is asked; name the nameservers in namesrvAddr",
        is_refused=False,
    ),
    Unsupported(
        ("rejectPullConsumerEnable",),
        "pull consumers are served like others",
        is_refused=False,
    ),
    Unsupported(
        ("disableConsumeIfConsumerReadSlowly",),
        "consumers that are far behind are served by threads of their own, and are not held back",
        is_refused=False,
    ),
    Unsupported(
        ("configBlackList",),
        "what may change over the wire is marked in docs/operate/settings.md, and taken from this machine only",
        asks=is_set,
        is_refused=False,
    ),
)
