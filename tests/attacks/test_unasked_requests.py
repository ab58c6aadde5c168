"""What a broker with users sends by itself: to clients whose user may have it at that moment, whatever heartbeats say."""

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.model.credentials import Credentials
from cometmq.model.flags import RESPONSE
from tests.attacks import beats
from tests.attacks.stranger import Answered, Stranger
from tests.support import processes
from tests.support.accounts import CANARY
from tests.support.auth_users import ROOT, auth_settings, policies, signed, user
from tests.support.frames import json_frame
from tests.support.processes import wait_until
from tests.support.request_fields import send_fields, topic_fields

ALICE = Credentials("alice", f"{CANARY}-alice")
BOB = Credentials("bob", f"{CANARY}-bob")
MALLORY = Credentials("mallory", f"{CANARY}-mallory")
OK, REFUSED = ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION
REPLIES = "DefaultCluster_REPLY_TOPIC"
PAYERS, READERS = "payers", "readers"
RIGHTS = {
    ALICE: [("Topic:orders", "Pub,Sub,Get"), (f"Topic:{REPLIES}", "Pub"), (f"Group:{READERS}", "Sub,Get")],
    BOB: [("Topic:orders", "Sub"), (f"Group:{READERS}", "Sub")],
}  # fmt: skip
CHECK_MS = 200


class Member(Stranger):
    """A connection whose requests a user signs, and which keeps what the broker asks of it."""

    def __init__(self, address: str, who: Credentials | None) -> None:
        super().__init__(address)
        self.who = who
        self.told: list[Answered] = []

    def asks(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b""
    ) -> Answered:
        """Ask, and keep the broker's requests that come before the answer; each is answered with success."""
        opaque = self.send(code, signed(self.who, code, fields, body), body)
        while True:
            frame = self.read()
            if frame.is_answer and frame.opaque == opaque:
                return frame
            self.take(frame)

    def take(self, frame: Answered) -> None:
        if not frame.is_answer:
            self.told.append(frame)
            self.socket.sendall(json_frame(0, opaque=frame.opaque, flag=RESPONSE))

    def beats(
        self, client_id: str, *, produces: Sequence[str] = (), consumes: Sequence[str] = ()
    ) -> Answered:
        body: dict[str, Any] = {
            "clientID": client_id,
            "producerDataSet": [{"groupName": group} for group in produces],
            "consumerDataSet": [beats.consumer(group, ["orders"]) for group in consumes],
        }
        return self.asks(Code.HEART_BEAT, body=json.dumps(body).encode())

    def heard(self, code: int) -> list[Answered]:
        """What it has been asked by this code up to now: the answer to a request comes behind it."""
        self.asks(Code.UNREGISTER_CLIENT, {"clientID": "of-nobody"})
        return [each for each in self.told if each.code == code]

    def hears(self, code: int, count: int = 1) -> list[Answered]:
        wait_until(lambda: len(self.heard(code)) >= count, seconds=30, what=f"{count} x {code}")
        return self.heard(code)

    def sends_half(self, name: str) -> Answered:
        marks = {"UNIQ_KEY": name, "TRAN_MSG": "true", "PGROUP": PAYERS}
        return self.sends("orders", name.encode(), marks, sys_flag=4)

    def sends(
        self,
        topic: str,
        body: bytes,
        marks: dict[str, str],
        *,
        sys_flag: int = 0,
        code: int = 310,
    ) -> Answered:
        properties = "".join(f"{key}\1{value}\2" for key, value in marks.items())
        fields = send_fields(topic, properties=properties, a=PAYERS, f=sys_flag)
        return self.asks(code, fields, body)


@pytest.fixture
def cluster(tmp_path):
    """A broker with users, and a way to connect to it as one of them."""
    settings = auth_settings(
        transactionTimeOut=0,
        transactionCheckInterval=CHECK_MS,
        useServerSideResetOffset="false",
    )
    program = processes.broker(tmp_path, "", settings=settings)

    def member(who: Credentials | None) -> Member:
        return open_now.enter_context(Member(program.address, who))

    with program, ExitStack() as open_now:
        root = member(ROOT)
        fields = topic_fields("orders")
        assert root.asks(Code.UPDATE_AND_CREATE_TOPIC, fields).code == OK
        for who in (ALICE, BOB, MALLORY):
            assert root.asks(3001, {"username": who.access_key}, user(who)).code == OK
        for who, rights in RIGHTS.items():
            allows(root, who, *rights)
        yield member


def allows(root: Member, who: Credentials, *rights: tuple[str, str]) -> None:
    subject = {"subject": f"User:{who.access_key}"}
    assert root.asks(3006, subject, policies(*rights)).code == OK


def withdraws(root: Member, who: Credentials) -> None:
    assert root.asks(3008, {"subject": f"User:{who.access_key}"}).code == OK


CHECK, REPLY = Code.CHECK_TRANSACTION_STATE, Code.PUSH_REPLY_MESSAGE_TO_CLIENT


def test_a_half_message_is_checked_with_producers_who_may_send_to_its_topic_and_with_no_others(
    cluster,
):
    strangers = [cluster(MALLORY) for _ in range(9)] + [cluster(BOB)]
    for number, stranger in enumerate(strangers):
        assert stranger.beats(f"stranger-{number}", produces=[PAYERS]).code == OK
    alice = cluster(ALICE)
    for number in range(3):
        assert alice.sends_half(f"{number:032X}").code == OK
    # Of the first rounds, before she is in the group, nothing goes to anybody.
    time.sleep(2 * CHECK_MS / 1000)
    assert alice.beats("alice@1", produces=[PAYERS]).code == OK
    asked = alice.hears(CHECK, 6)
    assert {f"{number:032X}" for number in range(3)} <= {each.fields["msgId"] for each in asked}
    assert [each for stranger in strangers for each in stranger.heard(CHECK)] == []


def test_a_producer_whose_right_is_withdrawn_is_asked_no_more(cluster):
    root, alice = cluster(ROOT), cluster(ALICE)
    assert alice.beats("alice@1", produces=[PAYERS]).code == OK
    assert alice.sends_half("A" * 32).code == OK
    alice.hears(CHECK)
    withdraws(root, ALICE)
    before = len(alice.heard(CHECK))
    other = cluster(BOB)
    allows(root, BOB, ("Topic:orders", "Pub"))
    assert other.beats("bob@1", produces=[PAYERS]).code == OK
    other.hears(CHECK, 3)
    assert len(alice.heard(CHECK)) == before


def test_a_client_id_is_of_the_user_who_came_with_it(cluster):
    alice = cluster(ALICE)
    assert alice.beats("alice@1", produces=["askers"]).code == OK
    for who, groups in ((MALLORY, {"produces": ["askers"]}), (BOB, {"consumes": [READERS]})):
        stranger = cluster(who)
        answer = stranger.beats("alice@1", **groups)
        assert answer.code == REFUSED
        assert "alice@1" in answer.remark
        assert "another user" in answer.remark
        assert stranger.beats(f"{who.access_key}@1", **groups).code == OK
        assert stranger.beats("alice@1", **groups).code == REFUSED
    again = cluster(ALICE)
    assert again.beats("alice@1", produces=["askers"]).code == OK, "her own second connection"
    alice.socket.close()
    again.socket.close()
    free = cluster(MALLORY)
    wait_until(
        lambda: free.beats("alice@1", produces=["askers"]).code == OK,
        seconds=30,
        what="a free id",
    )


def test_a_reply_reaches_who_asked_and_nobody_who_says_its_id(cluster):
    alice, mallory, responder = cluster(ALICE), cluster(MALLORY), cluster(ALICE)
    assert alice.beats("alice@1", produces=["askers"]).code == OK
    mallory.beats("alice@1", produces=["askers"])
    marks = {"CORRELATION_ID": "c-1", "REPLY_TO_CLIENT": "alice@1", "MSG_TYPE": "reply"}

    def replies() -> Answered:
        properties = "".join(f"{key}\1{value}\2" for key, value in marks.items())
        fields = send_fields(REPLIES, properties=properties, a="answers")
        number = responder.send(
            Code.SEND_REPLY_MESSAGE_V2,
            signed(ALICE, Code.SEND_REPLY_MESSAGE_V2, fields, b"secret"),
            b"secret",
        )
        wait_until(
            lambda: alice.heard(REPLY) or mallory.heard(REPLY), seconds=30, what="a reply"
        )
        while (answer := responder.read()).opaque != number:
            pass
        return answer

    assert replies().code == OK
    assert [each.body for each in alice.told if each.code == REPLY] == [b"secret"]
    assert mallory.heard(REPLY) == []


def test_who_is_disabled_gets_no_reply_and_keeps_no_id(cluster):
    root, mallory, responder = cluster(ROOT), cluster(MALLORY), cluster(ALICE)
    assert mallory.beats("shared@1", produces=["askers"]).code == OK
    disabled = json.dumps({"userStatus": "disable"}).encode()
    assert root.asks(3002, {"username": "mallory"}, disabled).code == OK
    marks = {"CORRELATION_ID": "c-1", "REPLY_TO_CLIENT": "shared@1", "MSG_TYPE": "reply"}
    answer = responder.sends(REPLIES, b"secret", marks, code=Code.SEND_REPLY_MESSAGE_V2)
    assert "not found" in answer.remark
    assert mallory.heard(REPLY) == []
    assert cluster(ALICE).beats("shared@1", produces=["askers"]).code == OK


CONSUMER_REQUESTS = {
    Code.GET_CONSUMER_RUNNING_INFO: {"consumerGroup": READERS, "clientId": "bob@1"},
    Code.CONSUME_MESSAGE_DIRECTLY: {"consumerGroup": READERS, "clientId": "bob@1", "topic": "orders"},
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: {"topic": "orders", "group": READERS, "clientAddr": "bob@1"},
    Code.INVOKE_BROKER_TO_RESET_OFFSET: {
        "topic": "orders", "group": READERS, "timestamp": "-1", "isForce": "true",
    },
}  # fmt: skip
SENT = {
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Code.GET_CONSUMER_STATUS_FROM_CLIENT,
    Code.INVOKE_BROKER_TO_RESET_OFFSET: Code.RESET_CONSUMER_CLIENT_OFFSET,
}


@pytest.mark.parametrize("code", CONSUMER_REQUESTS, ids=lambda code: code.name)
def test_a_consumer_whose_right_is_withdrawn_is_sent_nothing_of_its_group(cluster, code):
    root, bob, alice = cluster(ROOT), cluster(BOB), cluster(ALICE)
    assert bob.beats("bob@1", consumes=[READERS]).code == OK
    stored = alice.sends("orders", b"secret", {"UNIQ_KEY": "B" * 32})
    fields = dict(CONSUMER_REQUESTS[code])
    if code == Code.CONSUME_MESSAGE_DIRECTLY:
        fields["msgId"] = stored.fields["msgId"]
    sent = SENT.get(code, code)
    allowed = root.send(code, signed(ROOT, code, fields), b"")
    [told] = bob.hears(sent)
    assert not {"Signature", "AccessKey"} & told.fields.keys(), (
        "an admin's request, to be sent again"
    )
    while root.read().opaque != allowed:
        pass
    withdraws(root, BOB)
    notified = len(bob.heard(Code.NOTIFY_CONSUMER_IDS_CHANGED))
    answer = root.asks(code, fields)
    if sent == code:
        assert "not online" in answer.remark
    third = cluster(ALICE)
    assert third.beats("alice@2", consumes=[READERS]).code == OK
    third.hears(Code.NOTIFY_CONSUMER_IDS_CHANGED)
    assert len(bob.heard(sent)) == 1
    assert len(bob.heard(Code.NOTIFY_CONSUMER_IDS_CHANGED)) == notified


def test_a_consumer_is_given_no_record_of_a_topic_that_its_user_may_not_consume(cluster):
    """The id of a message says where it lies, whatever topic the request names."""
    root, alice = cluster(ROOT), cluster(ALICE)
    allows(root, MALLORY, ("Topic:mine", "Sub"), ("Group:mine", "Sub"))
    mallory = cluster(MALLORY)
    body = {
        "clientID": "mallory@1",
        "producerDataSet": [],
        "consumerDataSet": [beats.consumer("mine", ["mine"])],
    }
    assert mallory.asks(Code.HEART_BEAT, body=json.dumps(body).encode()).code == OK
    message_id = alice.sends("orders", b"secret", {"UNIQ_KEY": "C" * 32}).fields["msgId"]
    fields = {
        "consumerGroup": "mine",
        "clientId": "mallory@1",
        "topic": "mine",
        "msgId": message_id,
    }
    answer = root.asks(Code.CONSUME_MESSAGE_DIRECTLY, fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert mallory.heard(Code.CONSUME_MESSAGE_DIRECTLY) == []


def test_nobody_locks_or_unlocks_queues_by_another_users_client_id(cluster):
    alice, bob = cluster(ALICE), cluster(BOB)
    assert alice.beats("alice@1", consumes=[READERS]).code == OK
    queues = [{"topic": "orders", "brokerName": "broker-a", "queueId": 0}]
    body = json.dumps(
        {"consumerGroup": READERS, "clientId": "alice@1", "mqSet": queues}
    ).encode()
    assert alice.asks(Code.LOCK_BATCH_MQ, body=body).code == OK
    assert bob.asks(Code.UNLOCK_BATCH_MQ, body=body).code == REFUSED
    assert bob.asks(Code.LOCK_BATCH_MQ, body=body).code == REFUSED
    own = body.replace(b"alice@1", b"bob@1")
    locked = bob.asks(Code.LOCK_BATCH_MQ, body=own)
    assert (locked.code, json.loads(locked.body)["lockOKMQSet"]) == (OK, [])
