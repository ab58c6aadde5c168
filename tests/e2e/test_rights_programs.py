"""Rights at programs from the command line: our clients sign, strangers get nothing, files are followed."""

import time
from pathlib import Path

import pytest

from cometmq import (
    Admin,
    ClientSettings,
    Credentials,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullConsumerSettings,
)
from cometmq.broker import requests as broker_requests
from cometmq.model.codes import ResponseCode, request_name
from cometmq.model.errors import BrokerRefused, CometError
from cometmq.nameserver import requests as nameserver_requests
from tests.attacks.stranger import Stranger
from tests.fuzz.fitting import BROKER, NAMESERVER
from tests.support.accounts import (
    ADMIN,
    CANARY,
    account,
    guarded_cluster,
    write_accounts,
)
from tests.support.auth_users import signed
from tests.support.forks import anew
from tests.support.frames import json_frame
from tests.support.processes import wait_until
from tests.support.request_fields import send_fields

ALICE = Credentials("alice-the-sender", f"{CANARY}-alice")
BOB = Credentials("bob-the-reader", f"{CANARY}-bob")
OWN = (
    account(ALICE, defaultTopicPerm="DENY", topicPerms=["orders=PUB"]),
    account(BOB, topicPerms=["orders=SUB"], groupPerms=["readers=SUB"]),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    with anew(), guarded_cluster(folder, *OWN) as (names, broker):
        settings = ClientSettings(credentials=ADMIN)
        with Admin(names.address, settings=settings) as admin:
            admin.topics.create("orders", queues=1)
            admin.topics.create("secrets", queues=1)
        yield names, broker, folder


def producer(names, credentials):
    settings = ProducerSettings(credentials=credentials, retries=0, send_timeout_ms=5_000)
    return Producer(names.address, group="senders", settings=settings)


def test_who_signs_sends_and_consumes_what_he_may(cluster):
    names, _, _ = cluster
    with producer(names, ALICE) as alice:
        results = [alice.send(Message("orders", b"%d" % number)) for number in range(10)]
        assert len(results) == 10
        with pytest.raises(CometError):
            alice.send(Message("secrets", b"x"))
    settings = PullConsumerSettings(credentials=BOB)
    with PullConsumer(names.address, group="readers", settings=settings) as bob:
        queue = results[0].queue
        pulled = bob.fetch(queue, 0)
        assert [message.body for message in pulled.messages][:10] == [
            b"%d" % n for n in range(10)
        ]


@pytest.mark.parametrize(
    "credentials",
    [None, Credentials(ALICE.access_key, "wrong-secret"), Credentials("unknown1", "wrong-secret"), BOB],
    ids=["none", "wrong", "unknown", "reader"],
)  # fmt: skip
def test_who_may_not_does_not_send(cluster, credentials):
    names, _, _ = cluster
    with pytest.raises(CometError) as caught, producer(names, credentials) as other:
        other.send(Message("orders", b"x"))
    assert CANARY not in str(caught.value)


def test_no_code_is_answered_to_strangers_by_real_servers(cluster):
    """Nor to an account without rights, but for what touches nothing; a secret is in no answer, log or argument."""
    names, broker, _ = cluster
    for program, rules, fits in (
        (broker, broker_requests.RULES, BROKER),
        (names, nameserver_requests.RULES, NAMESERVER),
    ):
        with Stranger(program.address) as stranger:
            for rule in rules:
                fields = dict.fromkeys(fits[rule.code][0], "x")
                answer = stranger.ask(rule.code, fields)
                assert answer.code == ResponseCode.NO_PERMISSION, request_name(rule.code)
                assert "has no access key" in answer.remark
                assert CANARY not in answer.remark
                wrong = Credentials(ADMIN.access_key, "wrong-secret")
                answer = stranger.ask_as(wrong, rule.code, fields)
                assert answer.code == ResponseCode.NO_PERMISSION, request_name(rule.code)
        assert CANARY not in program.log.read_text()
        assert CANARY.encode() not in Path(f"/proc/{program.pid}/cmdline").read_bytes()
        assert "cometmq.audit: refused" in program.log.read_text()


def test_no_answer_to_an_admin_holds_a_secret(cluster):
    names, broker, _ = cluster
    for program, codes in ((broker, (26, 28, 21, 52)), (names, (319,))):
        with Stranger(program.address) as asked:
            for code in codes:
                answer = asked.ask_as(ADMIN, code)
                assert answer.code == ResponseCode.SUCCESS
                assert CANARY.encode() not in answer.body
                assert CANARY not in str(answer.fields)


def test_the_straight_way_of_sends_does_not_go_round_the_gate(cluster):
    """Plain sends in one write, of one connection: each is asked about, however they are decoded."""
    names, broker, _ = cluster
    with producer(names, ALICE) as alice:
        offset = alice.send(Message("orders", b"first")).queue_offset
    plain = send_fields(
        "orders", properties="UNIQ_KEY\x01" + "0" * 32 + "\x02", a="senders", n="broker-a"
    )
    frames, expected = [], []
    for number in range(300):
        body = b"body %d" % number
        signer = (ALICE, None, BOB, Credentials(ALICE.access_key, "wrong1"))[number % 4]
        frames.append(json_frame(310, signed(signer, 310, plain, body), body, opaque=number))
        expected.append(ResponseCode.SUCCESS if number % 4 == 0 else ResponseCode.NO_PERMISSION)
    with Stranger(broker.address) as mixed:
        mixed.socket.sendall(b"".join(frames))
        answers = {answer.opaque: answer.code for answer in (mixed.read() for _ in frames)}
    assert [answers[number] for number in range(300)] == expected
    with producer(names, ALICE) as alice:
        assert alice.send(Message("orders", b"last")).queue_offset == offset + 76


def test_a_file_that_changes_is_in_force_within_a_second(cluster):
    _names, broker, folder = cluster
    path = folder / "broker" / "plain_acl.yml"
    before = path.read_text()
    carol = Credentials("carol-is-new", f"{CANARY}-carol")

    def code():
        with Stranger(broker.address) as asked:
            return asked.ask_as(carol, 30, {"topic": "orders", "queueId": "0"}).code

    assert code() == ResponseCode.NO_PERMISSION
    write_accounts(path, account(ADMIN, admin=True), account(carol, topicPerms=["orders=SUB"]))
    began = time.monotonic()
    wait_until(lambda: code() == ResponseCode.SUCCESS, seconds=10, what="carol")
    assert time.monotonic() - began < 2.0
    path.write_text(before.replace("accounts:", "accounts: ["))
    wait_until(lambda: f"{path}, line" in broker.log.read_text(), seconds=10, what="a line")
    assert code() == ResponseCode.SUCCESS
    path.write_text(before)
    wait_until(lambda: code() == ResponseCode.NO_PERMISSION, seconds=10, what="as before")
    assert CANARY not in broker.log.read_text()


def test_an_admin_changes_accounts_over_the_wire(cluster):
    _names, broker, _ = cluster
    dave = Credentials("dave-is-new", f"{CANARY}-dave")

    def ask(who, code, **fields):
        with Stranger(broker.address) as asked:
            return asked.ask_as(who, code, fields)

    wanted = {
        "accessKey": dave.access_key,
        "secretKey": dave.secret_key,
        "topicPerms": "orders=SUB",
    }
    assert ask(ALICE, 50, **wanted).code == ResponseCode.NO_PERMISSION
    assert ask(dave, 30, topic="orders", queueId="0").code == ResponseCode.NO_PERMISSION
    assert ask(ADMIN, 50, **wanted).code == ResponseCode.SUCCESS
    assert ask(dave, 30, topic="orders", queueId="0").code == ResponseCode.SUCCESS
    refused = ask(ADMIN, 50, accessKey="tiny", secretKey=CANARY)
    assert refused.code == 209
    assert CANARY not in refused.remark
    assert ask(ADMIN, 53, globalWhiteAddrs="*", aclFileFullPath="/etc/passwd").code == 211
    versions = ask(ADMIN, 52)
    assert '"counter":1' in versions.fields["version"]
    assert ask(ADMIN, 51, accessKey=dave.access_key).code == ResponseCode.SUCCESS
    assert ask(dave, 30, topic="orders", queueId="0").code == ResponseCode.NO_PERMISSION
    assert ask(ADMIN, 51, accessKey=dave.access_key).code == 210


def test_a_broker_that_does_not_sign_is_in_no_route(cluster, tmp_path):
    from tests.support import processes

    names, _, _ = cluster
    stranger = processes.broker(tmp_path, names.address, settings={"brokerName": "stranger"})
    stranger.is_ready = stranger.has_booted
    with stranger, Admin(names.address, settings=ClientSettings(credentials=ADMIN)) as admin:
        assert "stranger" not in str(admin.brokers.cluster())
        wait_until(
            lambda: "has no access key" in stranger.log.read_text(), seconds=10, what="why"
        )


def test_an_account_learns_why_it_is_refused(cluster):
    names, _, _ = cluster
    with (
        Admin(names.address, settings=ClientSettings(credentials=BOB)) as bob,
        pytest.raises(
            BrokerRefused, match=r"CREATE_TOPIC of user bob-the-reader .* Create on Topic more"
        ),
    ):
        bob.topics.create("more", queues=1)
