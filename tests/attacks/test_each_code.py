"""Every request code of broker and nameserver, by a user without rights and by nobody, on every way to a handler.

The codes are those of the tables of requests; what each needs to be complete is `tests.fuzz.fitting`. Each is asked alone, as the only
request of a read, behind and before requests of a Super user in one write, many of a kind at once, and one-way, on a connection where
somebody else has signed just before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from cometmq.broker import requests as broker_table
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode, request_name
from cometmq.model.credentials import Credentials
from cometmq.model.flags import ONEWAY
from cometmq.nameserver import requests as nameserver_table
from cometmq.net.requests import RequestRule
from tests.attacks.stranger import Answered, Stranger
from tests.fuzz.fitting import BROKER, NAMESERVER
from tests.support import processes
from tests.support.accounts import CANARY, NO_SLAVES
from tests.support.auth_users import ROOT, auth_settings, signed
from tests.support.frames import json_frame

MALLORY = Credentials("mallory", f"{CANARY}-mallory")
WRONG = Credentials("root", "a-guessed-password")
ASKERS = {"unsigned": None, "without rights": MALLORY, "wrong signature": WRONG}
TABLES = {
    "broker": (broker_table.RULES, BROKER),
    "nameserver": (nameserver_table.RULES, NAMESERVER),
}
ROWS = [
    pytest.param(server, rule, id=f"{server}-{request_name(rule.code)}")
    for server, (rules, _) in TABLES.items()
    for rule in rules
]
OK, REFUSED = ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION
Fits = Mapping[int, tuple[Mapping[str, str], object]]
Request = tuple[Credentials | None, int, dict[str, str], bytes]


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """A nameserver and a broker with Auth 2.0; mallory is a user of both and has no policy."""
    folder = tmp_path_factory.mktemp("each-code")
    for name in ("names-users", "broker-users"):
        (folder / name).mkdir()
        file = folder / name / "auth.json"
        known = {
            "username": "mallory",
            "userType": "Normal",
            "userStatus": "enable",
            "password": MALLORY.secret_key,
        }
        file.write_text(json.dumps({"version": 1, "users": [known], "acls": []}))
        file.chmod(0o600)
    settings: dict[str, Any] = auth_settings(authConfigPath=folder / "names-users")
    names = processes.nameserver(folder / "names", **settings)
    (folder / "names" / "namesrv.conf").chmod(0o600)
    settings = auth_settings(authConfigPath=folder / "broker-users", **NO_SLAVES)
    broker = processes.broker(folder / "broker", names.address, settings=settings)
    (folder / "broker" / "broker.conf").chmod(0o600)
    broker.is_ready = broker.has_booted
    with names, broker:
        yield {"broker": broker, "nameserver": names}


def answers(peer: Stranger, requests: Sequence[Request]) -> list[Answered]:
    """The answers to requests that are written at once, in the order of the requests."""
    frames = [
        json_frame(code, signed(who, code, fields, body), body, opaque=number)
        for number, (who, code, fields, body) in enumerate(requests)
    ]
    peer.socket.sendall(b"".join(frames))
    found = [peer.read() for _ in frames]
    return sorted(found, key=lambda answer: answer.opaque)


def request_of(who: Credentials | None, rule: RequestRule, fits: Fits) -> Request:
    """A request that names a topic or group in each place where one can stand."""
    kinds, form = fits[rule.code]
    fields = {
        name: f"{kind}-{name}" if kind in {"topic", "group"} else "1"
        for name, kind in kinds.items()
    }
    body = (
        form if isinstance(form, bytes) else b"" if form is None else json.dumps(form).encode()
    )
    return who, int(rule.code), fields, body


def neighbours(server: str) -> list[Request]:
    """Requests of a Super user, which succeed: one that is answered at once, and a send that is taken as bytes."""
    if server == "nameserver":
        return [(ROOT, Code.GET_BROKER_CLUSTER_INFO, {}, b"")]
    send = {"a": "p", "b": "owned", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "5", "h": "0", "i": "", "j": "0", "k": "false"}  # fmt: skip
    return [
        (ROOT, Code.GET_BROKER_RUNTIME_INFO, {}, b""),
        (ROOT, Code.SEND_MESSAGE_V2, send, b"x"),
    ]


@pytest.mark.parametrize(("server", "rule"), ROWS)
def test_who_has_no_right_is_refused_on_every_way_to_a_handler(servers, server, rule):
    beside = neighbours(server)
    with Stranger(servers[server].address) as peer:
        # A Super user has signed here: the fast way of sends waits for his next ones.
        assert {answer.code for answer in answers(peer, beside * 2)} == {OK}
        for who in ASKERS.values():
            asked = request_of(who, rule, TABLES[server][1])
            for pipeline in (
                [asked],
                [asked] * 20,
                [*beside, asked],
                [asked, *beside],
                [*beside, asked, *beside, asked, *beside[::-1], asked],
            ):
                for sent, answer in zip(pipeline, answers(peer, pipeline), strict=True):
                    expected = REFUSED if sent is asked else OK
                    assert answer.code == expected, (who, answer)
            # Without an answer it is not done either, and those behind it are.
            who_asks, code, fields, body = asked
            frame = json_frame(code, signed(who_asks, code, fields, body), body, flag=ONEWAY)
            peer.socket.sendall(frame)
            assert {answer.code for answer in answers(peer, beside)} == {OK}


def test_behind_all_of_it_nothing_is_there_that_the_super_user_has_not_made(servers):
    """The cases above have asked for everything that a request can change."""
    with Stranger(servers["broker"].address) as peer:
        [topics, groups, users] = answers(
            peer,
            [
                (ROOT, Code.GET_ALL_TOPIC_CONFIG, {}, b""),
                (ROOT, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}, b""),
                (ROOT, Code.AUTH_LIST_USER, {}, b""),
            ],
        )
    for word in (b"topic-", b"group-"):
        assert word not in topics.body
        assert word not in groups.body
    assert sorted(each["username"] for each in json.loads(users.body)) == [
        "inner",
        "mallory",
        "root",
    ]
