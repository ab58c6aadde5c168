"""What the scenarios of the Java clients ask at the edges, with our client: on a Java broker and on ours.

Named after those of `java/run.sh`; the other test_our_* files have the rest of them.
"""

import pytest

from cometmq import (
    Admin,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    StoredMessage,
    Tag,
)
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerRefused, TopicNotFound
from cometmq.model.flags import PERM_WRITE
from tests.interop.ours import SECONDS, Box, bodies, messages, pushed
from tests.support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]


def test_tags_of_one_hash_are_told_apart(names, producer, topic, group):
    """ "Aa" and "BB" are one to the broker, which knows tags by Java's hash."""
    for number in range(6):
        tag = "Aa" if number % 2 == 0 else "BB"
        producer.send(Message(topic, b"%d" % number, tag=tag))
    box, last = Box(), Box()
    with (
        pushed(names, group, box, topic, expression=Tag("Aa")),
        pushed(names, f"{group}_all", last, topic),
    ):
        last.wait(6)
        box.wait(3)
    assert box.bodies == [b"0", b"2", b"4"]
    assert {message.tag for message in box.messages} == {"Aa"}


def test_what_may_not_or_cannot_be_asked_is_refused_by_its_code(names, topic, group):
    with Admin(names) as admin, PullConsumer(names, group=group) as consumer:
        (first, *_) = consumer.queues(topic)
        admin.topics.create(topic, queues=4, perm=PERM_WRITE)
        with pytest.raises(BrokerRefused) as refused:
            consumer.fetch(first, 0)
        assert refused.value.code == ResponseCode.NO_PERMISSION
        with pytest.raises(TopicNotFound):
            admin.topics.route(f"{topic}_never")
        assert admin.groups.connections(f"{group}_never") == {}


def test_a_consumer_that_closes_is_forgotten_at_once(names, topic, group):
    with Admin(names) as admin:
        with pushed(names, group, Box(), topic) as consumer:
            wait_until(
                lambda: any(
                    consumer.client_id in {each.client_id for each in found.connections}
                    for found in admin.groups.connections(group).values()
                ),
                seconds=SECONDS,
                what="the member",
            )
        wait_until(
            lambda: admin.groups.connections(group) == {}, seconds=5, what="nobody there"
        )


def test_sends_that_come_together_leave_together(names, topic, group):
    settings = ProducerSettings(auto_batch=True, batch_delay_ms=50, send_timeout_ms=10_000)
    box = Box()
    with Producer(names, settings=settings) as producer:
        sent = producer.send_many(messages(topic, bodies("a", 40)))
        assert len({result.message_id for result in sent}) == 40
    with pushed(names, group, box, topic):
        box.wait(40)
    assert box.bodies == bodies("a", 40)


def test_a_message_is_found_by_its_key_its_id_and_its_place(names, producer, topic):
    sent = producer.send(Message(topic, b"found", keys=("order-1", "order-2")))

    def found(admin: Admin) -> list[StoredMessage]:
        return admin.messages.by_key(topic, "order-2")

    with Admin(names) as admin:
        wait_until(lambda: found(admin), seconds=SECONDS, what="the message by its key")
        (by_key,) = found(admin)
        by_id = admin.messages.by_id(topic, sent.message_id)
        by_place = admin.messages.view(by_key.offset_message_id)
    assert by_id is not None
    assert by_key.body == by_id.body == by_place.body == b"found"


def test_names_in_a_namespace_are_short_for_users_and_long_for_brokers(names, topic, group):
    with Admin(names) as admin:
        admin.topics.create(f"shop%{topic}", queues=1)
    sending = ProducerSettings(namespace="shop", send_timeout_ms=10_000)
    box = Box()
    with Producer(names, settings=sending) as producer:
        producer.send(Message(topic, b"in the shop"))
    with pushed(names, group, box, topic, namespace="shop"):
        box.wait(1)
        with Admin(names) as admin:
            assert admin.groups.connections(f"shop%{group}")
    assert [message.topic for message in box.messages] == [topic]
