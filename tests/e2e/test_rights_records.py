"""Rights to a record that is named by its place: what matters is its topic, not what the request says."""

import pytest

from cometmq import Admin, ClientSettings, Credentials, Message, Producer, ProducerSettings
from cometmq.model.codes import ResponseCode
from tests.attacks.stranger import Stranger
from tests.support import request_fields
from tests.support.accounts import ADMIN, CANARY, account, guarded_cluster

EVE = Credentials("eve-the-reader", f"{CANARY}-eve")
MAL = Credentials("mal-of-most-topics", f"{CANARY}-mal")
PAT = Credentials("pat-the-writer", f"{CANARY}-pat")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    own = account(EVE, topicPerms=["mine=PUB|SUB"], groupPerms=["eves=SUB"])
    all_but_one = account(
        MAL, defaultTopicPerm="PUB|SUB", defaultGroupPerm="SUB", topicPerms=["secret=DENY"]
    )
    writer = account(PAT, topicPerms=["mine=PUB"])
    folder = tmp_path_factory.mktemp("guarded")
    with guarded_cluster(folder, own, all_but_one, writer) as programs:
        yield programs


def test_a_record_of_another_topic_is_not_shown_or_given_back(cluster):
    names, broker = cluster
    settings = ClientSettings(credentials=ADMIN)
    with Admin(names.address, settings=settings) as admin:
        admin.topics.create("mine", queues=1)
        admin.topics.create("secret", queues=1)
    settings = ProducerSettings(credentials=ADMIN)
    with Producer(names.address, group="g", settings=settings) as producer:
        mine = producer.send(Message("mine", b"mine", keys="k"))
        secret = producer.send(Message("secret", b"secret", keys="k"))

    def offset(sent):
        return str(int(sent.offset_message_id[16:], 16))

    with Stranger(broker.address) as eve:

        def ask(code, **fields):
            return eve.ask_as(EVE, code, fields)

        assert b"mine" in ask(33, offset=offset(mine), topic="mine").body
        hidden = ask(33, offset=offset(secret), topic="mine")
        assert hidden.code == ResponseCode.SYSTEM_ERROR
        assert b"secret" not in hidden.body
        assert ask(33, offset=offset(secret)).code == ResponseCode.NO_PERMISSION
        # As where there is none.
        nowhere = ask(33, offset="1", topic="mine")
        assert nowhere.remark.replace(", 1", "") == hidden.remark.replace(
            f", {offset(secret)}", ""
        )
        back = {
            "group": "eves",
            "delayLevel": "1",
            "originTopic": "mine",
            "maxReconsumeTimes": "3",
        }
        assert ask(36, offset=offset(mine), **back).code == ResponseCode.SUCCESS
        assert ask(36, offset=offset(secret), **back).code == ResponseCode.SYSTEM_ERROR


def test_a_transaction_of_another_topic_is_not_ended(cluster):
    """Whatever topic is named, or none, as by older clients."""
    _, broker = cluster
    marks = "TRAN_MSG\x01true\x02PGROUP\x01halves\x02UNIQ_KEY\x01" + "A" * 32 + "\x02"
    half = request_fields.send_fields("secret", 0, marks, a="halves", f=4, n="broker-a")
    with Stranger(broker.address) as asked:
        ask = asked.ask_as
        sent = ask(ADMIN, 310, half, b"half")
        assert sent.code == ResponseCode.SUCCESS
        end = {
            "producerGroup": "halves", "tranStateTableOffset": sent.fields["queueOffset"],
            "commitLogOffset": str(int(sent.fields["msgId"][16:], 16)), "commitOrRollback": "8", "msgId": "A" * 32,
        }  # fmt: skip
        assert ask(EVE, 37, end).code == ResponseCode.NO_PERMISSION
        assert ask(EVE, 37, {**end, "topic": "mine"}).code == ResponseCode.NO_PERMISSION
        assert ask(EVE, 37, {**end, "topic": "secret"}).code == ResponseCode.NO_PERMISSION
        assert ask(ADMIN, 37, end).code == ResponseCode.SUCCESS


def send_fields(topic, key, properties="", flag="0"):
    properties = f"UNIQ_KEY\x01{key}\x02{properties}"
    return request_fields.send_fields(topic, 0, properties, a="g", f=flag)


def reads_of(topic, key):
    """Requests that give messages of a topic."""
    pull = request_fields.pull_fields(topic, consumerGroup="mals")
    pop = request_fields.pop_fields(topic, 0, consumerGroup="mals", invisibleTime=30_000)
    by_key = {
        "topic": topic,
        "key": key,
        "maxNum": "9",
        "beginTimestamp": "0",
        "endTimestamp": "9" * 13,
    }
    return (11, pull), (200050, pop), (12, by_key)


@pytest.mark.parametrize(
    ("topic", "properties", "flag"),
    [
        ("SCHEDULE_TOPIC_XXXX", "DELAY\x0118\x02", "0"),
        ("rmq_sys_wheel_timer", "TIMER_DELAY_SEC\x016000\x02", "0"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "TRAN_MSG\x01true\x02PGROUP\x01g\x02", "4"),
    ],
)
def test_messages_of_a_denied_topic_were_read_where_they_wait(cluster, topic, properties, flag):
    """A right to all topics covered those in which messages wait."""
    names, broker = cluster
    with Admin(names.address, settings=ClientSettings(credentials=ADMIN)) as admin:
        admin.topics.create("secret", queues=1)
    with Stranger(broker.address) as asked:
        ask = asked.ask_as
        fields = send_fields("secret", "B" * 32, properties, flag)
        sent = ask(ADMIN, 310, fields, b"confidential")
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        offset = str(int(sent.fields["msgId"][16:], 16))
        by_id = ask(MAL, 33, {"offset": offset, "topic": "mine"})
        assert (by_id.code, by_id.body) == (ResponseCode.SYSTEM_ERROR, b"")
        for name in ("secret", topic):
            assert ask(MAL, 33, {"offset": offset, "topic": name}).code == 16
        back = {"group": "mals", "offset": offset, "delayLevel": "1", "originTopic": topic}
        assert (
            ask(MAL, 36, {**back, "maxReconsumeTimes": "3"}).code == ResponseCode.SYSTEM_ERROR
        )
        for code, fields in reads_of(topic, "B" * 32):
            answer = ask(MAL, code, fields)
            assert (answer.code, answer.body) == (ResponseCode.NO_PERMISSION, b""), code
        assert ask(ADMIN, 33, {"offset": offset, "topic": topic}).body


@pytest.mark.parametrize("topic", ["mine", "RMQ_SYS_TRACE_TOPIC"])
def test_a_right_to_send_was_one_to_read_bodies_by_their_ids(cluster, topic):
    """Of ACL 1.0; and nobody needed any right for traces."""
    _, broker = cluster
    with Stranger(broker.address) as asked:
        ask = asked.ask_as
        sent = ask(PAT, 310, send_fields(topic, "C" * 32), b"confidential")
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        offset = str(int(sent.fields["msgId"][16:], 16))
        seen = ask(PAT, 33, {"offset": offset, "topic": topic})
        assert (seen.code, seen.body) == (ResponseCode.NO_PERMISSION, b"")
        assert bool(ask(EVE, 33, {"offset": offset, "topic": "mine"}).body) == (topic == "mine")
        assert ask(PAT, 30, {"topic": "mine", "queueId": "0"}).code == ResponseCode.SUCCESS
