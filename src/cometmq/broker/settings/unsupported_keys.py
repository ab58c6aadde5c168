"""Keys of RocketMQ's brokers (5.3.3 and some newer) of which this broker does not support all or some values.

Missing features are listed in docs/compatibility.md; this module has the messages for settings that request them.
"""

from cometmq.model.unsupported import BLACK_LIST, TLS, Unsupported, is_set

_ELSEWHERE = (
    "this broker uses RocketMQ's files and neither reads nor writes RocksDB, so data in RocksDB would be "
    "missing; remove the setting, and use an empty storePathRootDir or one that was written without RocksDB"
)


def _is_rocksdb(text: str) -> bool:
    return text not in ("", "default")


UNSUPPORTED_KEYS = (
    # --- refused
    TLS,
    Unsupported(
        ("enableControllerMode",),
        "controllers are not supported yet, and this broker would be a second master beside the elected one; "
        "start RocketMQ with this file, or remove the setting and give the broker its own brokerName; for a group that elects "
        "its leader write enableControllerMode=false and enableDLegerCommitLog=true",
    ),
    Unsupported(
        ("enableSlaveActingMaster",),
        "a slave cannot replace a lost master automatically yet; remove the setting, and promote a slave by hand "
        "(brokerRole and brokerId in its file, and a restart)",
    ),
    Unsupported(
        ("brokerConfigPaths", "brokerContainerIP"),
        "a BrokerContainer runs several brokers in one process, but this program runs only one; start "
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
        "tiered storage is not implemented yet, and messages for another tier would be deleted with the log; remove "
        "the setting, and raise fileReservedTime",
        asks=is_set,
    ),
    # --- warned of
    Unsupported(
        ("metricsExporterType",),
        "metrics cannot be written to the log; they are served at /metrics instead (PROM), or sent with OTLP_GRPC",
        asks=lambda text: text.upper() == "LOG",
        is_refused=False,
    ),
    Unsupported(
        ("metricsInDelta",),
        "cumulative totals are sent; a collector can convert them to differences (cumulativetodelta)",
        is_refused=False,
    ),
    Unsupported(
        ("enableRemoteEscape", "duplicationEnable"),
        "a slave never acts as a master",
        is_refused=False,
    ),
    Unsupported(
        ("coldCtrStrategyEnable",),
        "the threshold of cold reads is fixed; set cgColdReadThreshold",
        is_refused=False,
    ),
    Unsupported(
        ("enableConsumeQueueExt",),
        "consumequeue_ext is read but not written; filtering by tags works without it",
        is_refused=False,
    ),
    Unsupported(
        ("rocksdbCQDoubleWriteEnable",),
        "queues are written to RocketMQ's files only",
        is_refused=False,
    ),
    Unsupported(
        ("fetchNamesrvAddrByAddressServer",),
        "address servers are not supported; set the nameservers in namesrvAddr",
        is_refused=False,
    ),
    Unsupported(
        ("rejectPullConsumerEnable",),
        "pull consumers are served like other consumers",
        is_refused=False,
    ),
    Unsupported(
        ("disableConsumeIfConsumerReadSlowly",),
        "consumers that are far behind are served by separate threads and are not throttled",
        is_refused=False,
    ),
    BLACK_LIST,
)
