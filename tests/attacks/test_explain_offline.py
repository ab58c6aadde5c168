"""`cometmq explain ID --group G` finds a message that is there, though nobody of the group is."""

from cometmq import Admin, Message, Producer, PullConsumer
from cometmq.model.group import GroupConfig
from tests.support.command_line import run

TOPIC, OTHER = "Stored", "Beside"
GROUP = "offline"


def test_a_message_of_an_offline_group_is_found(nameserver, broker):
    """It was said to be "never stored"."""
    with Producer(nameserver.address) as producer, Admin(nameserver.address) as admin:
        producer.send(Message(OTHER, b"x"))
        sent = producer.send(Message(TOPIC, b"x"))
        admin.groups.create(GroupConfig(GROUP))
        with PullConsumer(nameserver.address, group=GROUP) as consumer:
            consumer.commit(sent.queue, 0)

    def explained(message_id: str) -> str:
        done = run("explain", message_id, "--group", GROUP, nameserver=nameserver.address)
        assert done.returncode == 1, done.stderr.decode()
        return " ".join(done.stdout.decode().split())

    told = explained(sent.message_id)
    assert f"it is in {sent.queue} at offset {sent.queue_offset}" in told
    assert "group 'offline' has no connected members" in told
    # One that is nowhere: it says where it has looked, and what to do.
    told = explained("7F" * 16)
    assert TOPIC in told
    assert OTHER in told
    assert "--topic" in told
