"""The official Java clients cannot tell our nameserver and broker from the Java ones.

Each scenario of `java/run.sh` is one test here, for each client version and header coding. One run of a
client does all its scenarios, eight at a time; a scenario that does not report has failed.
"""

from functools import cache

import pytest

from tests.interop import clients, reference

SCENARIOS = [
    "admin_cluster_info",
    "autocreate_topic_send_consume",
    "send_sync",
    "send_async",
    "send_oneway",
    "send_batch",
    "send_to_queue",
    "tags_keys_props",
    "compressed_body",
    "big_body_1mb",
    "message_too_large",
    "push_concurrent_200",
    "long_poll_latency",
    "tag_filter",
    "tag_hash_collision",
    "broadcast",
    "pull_consumer",
    "lite_pull_subscribe",
    "lite_pull_assign_seek",
    "query_by_key",
    "view_message",
    "offset_resume",
    "from_last_offset_small_topic",
    "consume_from_timestamp",
    "rebalance_two_consumers",
    "sub_two_topics_one_group",
    "two_groups_same_topic",
    "topic_perm_read_only",
    "topic_perm_write_only_pull",
    "unknown_topic_and_group_codes",
    "unregister_on_shutdown",
    "admin_delete_topic",
    "admin_sub_group",
    "admin_kv_config",
    "heartbeat_second_round",
    "request_reply",
    "request_timeout",
    "reset_offset_by_timestamp",
    "admin_topic_and_consume_stats",
    "admin_connections_running_info",
    "retry_redelivery",
    "dlq_after_max_reconsume",
    "delay_level",
    "tx_commit_rollback",
    "tx_check_back",
    "orderly_by_hash",
    "orderly_suspend_retry",
    "orderly_to_dlq",
    "sql92_filter",
    "sql92_bad_expression",
    "message_trace",
    "namespace_v1",
    "admin_broker_config_and_stats",
]
# The client of 4.9 has no such calls.
SCENARIOS_OF_5 = [
    "timer_delay_ms",
    "recall_timer_message",
    "pop_push_consumer",
    "pop_retry",
    "auto_batch",
    "compress_lz4",
    "compress_zstd",
    "lite_pull_from_timestamp",
    "namespace_v2",
]
CLIENTS = [
    (version, header) for version in ("5.3.3", "4.9.7") for header in ("JSON", "ROCKETMQ")
] + [(reference.NEWEST, "JSON")]


def scenarios_of(version: str) -> list[str]:
    """What the client of a version can do."""
    return SCENARIOS + SCENARIOS_OF_5 if version.startswith("5.") else SCENARIOS


CASES = [
    pytest.param(version, header, scenario, id=f"{version}-{header}-{scenario}")
    for version, header in CLIENTS
    for scenario in scenarios_of(version)
]

pytestmark = [pytest.mark.java, pytest.mark.timeout(3 * clients.SECONDS_MAX)]


@cache
def reports(nameserver: str, version: str, header: str) -> dict[str, clients.Result]:
    """What one client reports on all scenarios; run once."""
    return clients.run_scenarios(
        nameserver, scenarios_of(version), client=version, header=header
    )


@pytest.mark.parametrize(("version", "header", "scenario"), CASES)
def test_a_java_client_finds_what_it_expects(our_cluster, version, header, scenario):
    result = reports(our_cluster.nameserver.address, version, header).get(scenario)
    assert result is not None, f"{scenario} did not report"
    assert result.passed, result.detail
