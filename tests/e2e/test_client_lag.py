"""How far a group is behind, and sending it elsewhere."""

import pytest

from cometmq import Admin, Message, MessageQueue, Producer, PullConsumer
from cometmq.admin import GroupConfig
from cometmq.embedded import Embedded
from cometmq.errors import BrokerRefused, GroupNotFound, SettingsError, TopicNotFound

COUNT = 12


@pytest.fixture(params=[True, False], ids=["the broker moves it", "members move themselves"])
def mq(request):
    with Embedded(settings={"useServerSideResetOffset": request.param}) as mq:
        yield mq


def test_a_group_lags_and_is_sent_elsewhere(mq):
    with Admin(mq.nameserver) as admin, Producer(mq.nameserver) as producer:
        admin.topics.create("orders", queues=2)
        admin.groups.create(GroupConfig("billing"))
        sent = producer.send_many([Message("orders", b"x") for _ in range(COUNT)])
        ends = {
            queue: each.max_offset for queue, each in admin.topics.offsets("orders").items()
        }
        assert sum(ends.values()) == COUNT
        with PullConsumer(mq.nameserver, group="billing") as consumer:
            for queue, end in ends.items():
                consumer.commit(queue, end - 1)
        assert (
            admin.offsets.lag("billing")
            == admin.offsets.lag("billing", "orders")
            == dict.fromkeys(ends, 1)
        )
        first = dict.fromkeys(ends, 0)
        assert admin.offsets.reset("billing", "orders", 0) == first
        assert admin.offsets.committed("billing", "orders") == first
        assert admin.offsets.lag("billing") == ends
        assert admin.offsets.reset("billing", "orders", None) == ends
        assert admin.offsets.committed("billing", "orders") == ends
        assert sum(admin.offsets.lag("billing").values()) == 0
        assert len(sent) == COUNT


def test_who_is_not_there_is_not_moved(mq):
    with Admin(mq.nameserver) as admin:
        with pytest.raises(TopicNotFound):
            admin.offsets.reset("billing", "nowhere", 0)
        admin.topics.create("orders", queues=2)
        with pytest.raises(BrokerRefused, match="does not exist"):
            admin.offsets.reset("nobody", "orders", 0)


def test_a_group_that_is_not_there_has_no_lag_of_0(mq):
    with Admin(mq.nameserver) as admin:
        with pytest.raises(GroupNotFound, match="no broker has the consumer group 'bilings'"):
            admin.offsets.lag("bilings")
        admin.groups.create(GroupConfig("new"))
        assert admin.offsets.lag("new") == {}


def test_a_broker_group_without_a_master_is_answered_for_by_its_slave(tmp_path):
    queue = MessageQueue("orders", "broker-a", 0)
    with Embedded(tmp_path) as mq, Admin(mq.nameserver) as admin:
        admin.topics.create("orders", queues=1)
        mq.put(*[Message("orders", b"x")] * COUNT)
        admin.offsets.set("billing", {queue: 2})
    slave: dict[str, str | int | bool] = {"brokerRole": "SLAVE", "brokerId": 1}
    with Embedded(tmp_path, settings=slave) as mq, Admin(mq.nameserver) as admin:
        assert admin.offsets.lag("billing") == {queue: COUNT - 2}


def test_producers_are_listed_at_the_masters_that_have_some(mq):
    with Admin(mq.nameserver) as admin, Producer(mq.nameserver, group="shop") as producer:
        producer.send(Message("orders", b"x"))
        [members] = admin.groups.producer_connections("shop").values()
        assert [each.language for each in members]
        assert admin.groups.producer_connections("nobody") == {}


def test_only_what_is_sent_to_brokers_can_be_changed(mq):
    with Admin(mq.nameserver) as admin:
        admin.topics.create("orders", queues=1)
        admin.groups.create(GroupConfig("billing"))
        for field in ("attributes", "name", "colour"):
            with pytest.raises(SettingsError, match=f"'{field}' is not a field of TopicConfig"):
                admin.topics.set("orders", {field: {"message.type": "FIFO"}})
        for field in ("name", "colour"):
            with pytest.raises(SettingsError, match=f"'{field}' is not a field of GroupConfig"):
                admin.groups.set("billing", {field: "other"})
