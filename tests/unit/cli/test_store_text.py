"""What `cometmq store` prints of one thing is in the singular."""

import pytest

from cometmq.cli.store_text import print_plan
from cometmq.offline.known_queues import QueueId
from cometmq.offline.repair import RepairPlan


@pytest.mark.parametrize(
    ("count", "says"),
    [
        (1, "1 queue and 1 index file rebuilt from 1 record"),
        (2, "2 queues and 2 index files rebuilt from 2 records"),
    ],
)
def test_a_repair_of_one_queue_says_so(capsys, count, says):
    queues = [QueueId("orders", number) for number in range(count)]
    print_plan(RepairPlan([], False, 0, 0, queues, count, count))
    assert says in " ".join(capsys.readouterr().out.split())
