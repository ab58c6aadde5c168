"""Settings that a session on this machine chooses by its number of threads."""

from __future__ import annotations

import os

import pytest

from cometmq.spark.session import _shuffle_conf

NAME = "spark.sql.shuffle.partitions"


@pytest.mark.parametrize(
    ("master", "count"),
    [
        ("local", 2),
        ("local[1]", 2),
        ("local[2]", 4),
        ("local[8]", 16),
        ("local[2, 4]", 4),
        ("local[*]", max(2, 2 * (os.cpu_count() or 1))),
        ("local[*, 3]", max(2, 2 * (os.cpu_count() or 1))),
    ],
)
def test_a_local_session_has_two_shuffle_partitions_a_thread(master, count):
    assert _shuffle_conf(master) == {NAME: str(count)}


@pytest.mark.parametrize(
    "master", ["spark://host:7077", "yarn", "local-cluster[2,1,1024]", "k8s://x"]
)
def test_a_cluster_keeps_the_number_of_spark(master):
    assert _shuffle_conf(master) == {}
