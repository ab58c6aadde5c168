"""`explain` on Java's servers and ours: the same answers, but for what only our broker knows."""

import pytest

from cometmq import Admin, Message, Tag
from tests.interop.ours import FAST, SECONDS, Box, pushed
from tests.support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]


def test_a_message_that_is_consumed_refused_and_not_wanted_is_explained(
    names, cluster, producer, topic, group
):
    is_ours = cluster.broker.command[1:3] == ["-m", "cometmq.broker"]
    good = producer.send(Message(topic, b"good", tag="a"))
    bad = producer.send(Message(topic, b"bad", tag="a"))
    other = producer.send(Message(topic, b"other", tag="b"))
    box = Box()

    def listen(message) -> bool:
        box(message)
        return message.body != b"bad"

    with (
        pushed(names, group, listen, topic, expression=Tag("a"), **FAST),
        Admin(names) as admin,
    ):

        def answers(message_id: str, word: str) -> None:
            wait_until(
                lambda: word in admin.messages.explain(message_id, group, topic=topic).answer,
                seconds=SECONDS,
                what=word,
            )

        box.wait(2)
        answers(good.message_id, "it was consumed")
        answers(bad.message_id, "its attempt 2 waits at delay level 3")
        answers(other.message_id, "the group subscribes to 'a'; the tag of the message is 'b'")
        found = admin.messages.explain(good.offset_message_id, group, topic=topic)
        checks = {finding.check: finding.is_fine for finding in found.findings}
        assert found.message is not None
        assert found.message.body == b"good"
        assert checks["members"] is True
        assert checks["agreement"] is (True if is_ours else None)
