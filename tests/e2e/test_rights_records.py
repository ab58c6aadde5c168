"""Rights to a record that is named by its place: what matters is its topic, not what the request says."""

from __future__ import annotations

import pytest

from cometmq.client import (
    Admin,
    ClientSettings,
    Credentials,
    Message,
    Producer,
    ProducerSettings,
)
from cometmq.codec.remoting import Command
from cometmq.codec.signer import Signer
from cometmq.model.codes import ResponseCode
from tests.attacks.stranger import Stranger
from tests.support.accounts import ADMIN, CANARY, account, guarded_cluster

EVE = Credentials("eve-the-reader", f"{CANARY}-eve")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    own = account(EVE, topicPerms=["mine=PUB|SUB"], groupPerms=["eves=SUB"])
    with guarded_cluster(tmp_path_factory.mktemp("guarded"), own) as programs:
        yield programs


def test_a_record_of_another_topic_is_not_shown_or_given_back(cluster):
    names, broker = cluster
    settings = ClientSettings(credentials=ADMIN)
    with Admin(names.address, settings=settings) as admin:
        admin.create_topic("mine", queues=1)
        admin.create_topic("secret", queues=1)
    settings = ProducerSettings(credentials=ADMIN)
    with Producer(names.address, group="g", settings=settings) as producer:
        mine = producer.send(Message("mine", b"mine", keys="k"))
        secret = producer.send(Message("secret", b"secret", keys="k"))

    def offset(sent):
        return str(int(sent.offset_message_id[16:], 16))

    with Stranger(broker.address) as eve:

        def ask(code, **fields):
            return eve.ask(code, Signer(EVE).signed(Command(code, fields=fields)).fields)

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
    half = {
        "a": "halves", "b": "secret", "c": "TBW102", "d": "4", "e": "0", "f": "4", "g": "1700000000000", "h": "0",
        "i": "TRAN_MSG\x01true\x02PGROUP\x01halves\x02UNIQ_KEY\x01" + "A" * 32 + "\x02", "j": "0", "k": "false",
        "m": "false", "n": "broker-a",
    }  # fmt: skip
    with Stranger(broker.address) as asked:

        def ask(who, code, fields, body=b""):
            return asked.ask(
                code, Signer(who).signed(Command(code, fields=fields, body=body)).fields, body
            )

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
