"""Who asks, with Auth 2.0: requests of several users in one pipeline are each answered as their own user's."""

import json

import pytest

from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.model.credentials import Credentials
from tests.attacks.stranger import Answered, Stranger
from tests.support import processes
from tests.support.accounts import CANARY
from tests.support.auth_users import ROOT, auth_settings, policies, signed, user
from tests.support.frames import json_frame

BOSS = Credentials("boss", f"{CANARY}-boss")
SPARE = Credentials("spare-root", f"{CANARY}-spare")
OK, REFUSED = ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION
NOBODY: tuple[None, int, dict[str, str], bytes] = (None, Code.GET_BROKER_RUNTIME_INFO, {}, b"")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker with users: Super users root and spare-root, and boss, who may only administer the cluster."""
    folder = tmp_path_factory.mktemp("askers")
    with processes.broker(folder, "", settings=auth_settings()) as program:
        super_user = user(SPARE, userType="Super")
        assert ask(program, ROOT, 3001, {"username": SPARE.access_key}, super_user).code == OK
        assert ask(program, ROOT, 3001, {"username": BOSS.access_key}, user(BOSS)).code == OK
        rights = policies(("Cluster:*", "Update,Get"))
        assert ask(program, ROOT, 3006, {"subject": "User:boss"}, rights).code == OK
        yield program


def ask(program, who, code, fields, body=b"") -> Answered:
    with Stranger(program.address) as stranger:
        return stranger.ask_as(who, code, fields, body)


def piped(program, *requests) -> list[Answered]:
    """The answers to requests that one connection writes at once, in the order of the requests."""
    frames = [
        json_frame(code, signed(who, code, fields, body), body, opaque=number)
        for number, (who, code, fields, body) in enumerate(requests)
    ]
    with Stranger(program.address) as stranger:
        stranger.socket.sendall(b"".join(frames))
        answers = [stranger.read() for _ in frames]
    return sorted(answers, key=lambda answer: answer.opaque)


def known_users(program):
    return {each["username"]: each for each in json.loads(ask(program, ROOT, 3005, {}).body)}


CHANGES = {
    "make": (3001, {"username": "mine"}, user(BOSS, userType="Super")),
    "promote": (3002, {"username": "boss"}, user(BOSS, userType="Super")),
    "password": (3002, {"username": "root"}, user(BOSS)),
    "disable": (3002, {"username": "spare-root"}, user(BOSS, userStatus="disable")),
    "delete": (3003, {"username": "spare-root"}, b""),
}
BEHIND = {
    "an unsigned one": NOBODY,
    "one of a Super user": (ROOT, Code.GET_BROKER_RUNTIME_INFO, {}, b""),
    "a heartbeat": (BOSS, Code.HEART_BEAT, {}, b'{"clientID":"me"}'),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("behind", BEHIND)
def test_a_request_behind_it_makes_no_super_user_of_who_changes_one(broker, change, behind):
    before = known_users(broker)
    request = (BOSS, *CHANGES[change])
    for pipeline in (
        [request, BEHIND[behind]],
        [BEHIND[behind], request, BEHIND[behind]],
        [request, request, BEHIND[behind]],
    ):
        for sent, answer in zip(pipeline, piped(broker, *pipeline), strict=True):
            if sent is request:
                assert answer.code == ResponseCode.SYSTEM_ERROR
                assert "super user" in answer.remark
    assert known_users(broker) == before


def test_the_audit_names_the_user_who_asked_and_no_secret(broker):
    frank = Credentials("frank", f"{CANARY}-frank")
    named = {"username": "frank"}
    made = piped(broker, (BOSS, 3001, named, user(frank)), NOBODY)
    assert [answer.code for answer in made] == [OK, REFUSED]
    gone = piped(broker, (SPARE, 3003, named, b""), NOBODY)
    assert [answer.code for answer in gone] == [OK, REFUSED]
    text = broker.log.read_text()
    lines = [line for line in text.splitlines() if "cometmq.audit: done" in line]
    assert "done AUTH_CREATE_USER of user boss from 127.0.0.1:" in lines[-2]
    assert "(username=frank, " in lines[-2]
    assert "done AUTH_DELETE_USER of user spare-root from 127.0.0.1:" in lines[-1]
    assert lines[-1].endswith("(username=frank)")
    assert f"{CANARY}-frank" not in text


def test_the_last_super_user_stays_super_and_enabled(tmp_path):
    inner, root = {"username": "inner"}, {"username": "root"}
    with processes.broker(tmp_path, "", settings=auth_settings()) as program:
        assert ask(program, ROOT, 3003, inner).code == OK
        for code, body in (
            (3002, json.dumps({"userStatus": "disable"}).encode()),
            (3002, json.dumps({"userType": "Normal"}).encode()),
            (3003, b""),
        ):
            answer = ask(program, ROOT, code, root, body)
            assert answer.code == ResponseCode.INVALID_PARAMETER
            assert "last Super user" in answer.remark
        # Two who take each other's rights at the same moment leave one of them.
        assert (
            ask(
                program, ROOT, 3001, {"username": "spare-root"}, user(SPARE, userType="Super")
            ).code
            == OK
        )
        body = json.dumps({"userType": "Normal"}).encode()
        answers = piped(
            program,
            (ROOT, 3002, {"username": "spare-root"}, body),
            (SPARE, 3002, root, body),
        )
        assert min(answer.code for answer in answers) == OK
        assert any(each["userType"] == "Super" for each in known_after(program))


def known_after(program):
    for who in (ROOT, SPARE):
        answer = ask(program, who, 3005, {})
        if answer.code == OK:
            return json.loads(answer.body)
    raise AssertionError("no Super user is left")
