"""A worker dies in the middle of a job: the job ends well and loses nothing."""

from threading import Thread

import pytest

from tests.cluster.standalone import kill
from tests.cluster.test_cluster import SECONDS_MAX, bodies, executors, load, save, summed
from tests.support.processes import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

COUNT = 60_000
DONE_BEFORE = 6  # tasks, of sixty


def test_a_worker_that_is_killed_in_the_middle_of_a_job_loses_nothing(
    spark, standalone, nameserver, topic
):
    save(bodies(COUNT, spark), nameserver, topic)
    rows = load(spark, nameserver, topic, maxRecordsPerPartition=1000, minRecordsPerTask=0)
    copy = f"{topic}-copy"
    before = executors(spark)
    is_over: list[bool] = []
    killed_in_the_middle: list[bool] = []

    def kill_one() -> None:
        # Sixty tasks, two at a time: some are done, most are not.
        enough = sum(before.values()) + DONE_BEFORE
        wait_until(
            lambda: is_over or sum(executors(spark).values()) >= enough,
            seconds=SECONDS_MAX,
            what="six tasks",
        )
        killed_in_the_middle.append(not is_over)
        kill(standalone.workers[1])

    # The job runs in this thread: Spark finds Python sources in the thread of its session only.
    killer = Thread(target=kill_one)
    killer.start()
    try:
        save(rows.select("body"), nameserver, copy)
    finally:
        is_over.append(True)
        killer.join(SECONDS_MAX)
    assert killed_in_the_middle == [True], "the job was over before the worker was killed"
    assert len(before.keys() - executors(spark).keys()) == 1, "one executor is gone"
    stored, different, largest = summed(load(spark, nameserver, copy))
    print(f"lost {COUNT - different}, duplicated {stored - different} (at-least-once)")
    assert (different, largest) == (COUNT, COUNT - 1)
