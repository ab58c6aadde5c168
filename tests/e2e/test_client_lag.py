"""How far a group is behind, and sending it elsewhere."""

import pytest

from cometmq.client import Admin, GroupConfig, Message, Producer, PullConsumer
from cometmq.embedded import Embedded
from cometmq.errors import BrokerRefused, GroupNotFound, TopicNotFound

COUNT = 12


@pytest.fixture(params=[True, False], ids=["the broker moves it", "members move themselves"])
def mq(request):
    with Embedded(settings={"useServerSideResetOffset": request.param}) as mq:
        yield mq


def test_a_group_lags_and_is_sent_elsewhere(mq):
    with Admin(mq.nameserver) as admin, Producer(mq.nameserver) as producer:
        admin.create_topic("orders", queues=2)
        admin.create_group(GroupConfig("billing"))
        sent = producer.send_many([Message("orders", b"x") for _ in range(COUNT)])
        ends = {queue: each.max_offset for queue, each in admin.topic_offsets("orders").items()}
        assert sum(ends.values()) == COUNT
        with PullConsumer(mq.nameserver, group="billing") as consumer:
            for queue, end in ends.items():
                consumer.commit(queue, end - 1)
        assert admin.lag("billing") == admin.lag("billing", "orders") == dict.fromkeys(ends, 1)
        first = dict.fromkeys(ends, 0)
        assert admin.reset_offsets("billing", "orders", 0) == first
        assert admin.group_offsets("billing", "orders") == first
        assert admin.lag("billing") == ends
        assert admin.reset_offsets("billing", "orders", None) == ends
        assert admin.group_offsets("billing", "orders") == ends
        assert sum(admin.lag("billing").values()) == 0
        assert len(sent) == COUNT


def test_who_is_not_there_is_not_moved(mq):
    with Admin(mq.nameserver) as admin:
        with pytest.raises(TopicNotFound):
            admin.reset_offsets("billing", "nowhere", 0)
        admin.create_topic("orders", queues=2)
        with pytest.raises(BrokerRefused, match="does not exist"):
            admin.reset_offsets("nobody", "orders", 0)


def test_a_group_that_is_not_there_has_no_lag_of_0(mq):
    with Admin(mq.nameserver) as admin:
        with pytest.raises(GroupNotFound, match="no broker has the consumer group 'bilings'"):
            admin.lag("bilings")
        admin.create_group(GroupConfig("new"))
        assert admin.lag("new") == {}
