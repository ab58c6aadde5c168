"""Every request code of broker and nameserver, by a user without rights and by nobody, on every way to a handler.

The codes are those of the tables of requests; what each needs to be complete is `tests.fuzz.fitting`. Each is asked with Auth 2.0 and with
ACL 1.0, in both codings of headers: alone, as the only request of a read, behind and before requests of a Super user in one write, many of a
kind at once, and one-way, on a connection where somebody else has signed just before; of new names, which the slow path of a handler sees, and
of a topic whose queue is open to the fast path.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import cycle, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cometmq.broker import requests as broker_table
from cometmq.codec.remoting import JSON, ROCKETMQ, Command, decode_command, encode_command
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode, request_name
from cometmq.model.credentials import Credentials
from cometmq.model.flags import ONEWAY, RESPONSE
from cometmq.nameserver import requests as nameserver_table
from cometmq.net.requests import RequestRule
from tests.attacks.stranger import Answered, Stranger
from tests.attacks.test_nameserver import ELSEWHERE
from tests.fuzz.fitting import BROKER, NAMESERVER
from tests.support.accounts import (
    ADMIN,
    CANARY,
    INNER,
    NO_SLAVES,
    account,
    inner_setting,
    write_accounts,
)
from tests.support.auth_users import auth_settings, signed
from tests.support.frames import parts_of, read_frame
from tests.support.processes import Program
from tests.support.programs import small_cluster
from tests.support.request_fields import send_fields

MALLORY = Credentials("mallory", f"{CANARY}-mallory")
WRONG = Credentials(ADMIN.access_key, "a-guessed-password")
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
# What an account of ACL 1.0 without any right may ask a nameserver for (docs/operate/security.md).
OF_ACCOUNTS = {
    Code.GET_BROKER_CLUSTER_INFO, Code.GET_MISSING_BROKERS, Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, Code.GET_UNIT_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, Code.GET_KV_CONFIG, Code.GET_KVLIST_BY_NAMESPACE,
}  # fmt: skip
OWNED = "owned"  # A topic of the Super user, to which the fast path has an open queue.
OK, REFUSED = ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION
Fits = Mapping[int, tuple[Mapping[str, str], object]]
Request = tuple[Credentials | None, int, dict[str, str], bytes]


class Servers(NamedTuple):
    """A nameserver and a broker with access control, which both know mallory, who may do nothing.

    Attributes:
        guard: "auth" or "acl".
        broker: The broker.
        nameserver: The nameserver.
        stored: A message for each one that the Super user has sent to `OWNED`.
    """

    guard: str
    broker: Program
    nameserver: Program
    stored: list[Answered]


@pytest.fixture(scope="module", params=["auth", "acl"])
def servers(request, tmp_path_factory):
    """Two servers that leave the tests as they were but for messages in `OWNED`."""
    folder = tmp_path_factory.mktemp("each-code")
    settings = write_users(folder) if request.param == "auth" else write_accounts_of(folder)
    programs = small_cluster(folder, settings["nameserver"], **settings["broker"])
    with programs as (names, broker):
        yield Servers(request.param, broker, names, [])


def write_users(folder: Path) -> dict[str, dict[str, Any]]:
    """The settings of servers with Auth 2.0, by server."""
    users = [
        {"username": who.access_key, "password": who.secret_key, "userType": kind, "userStatus": "enable"}
        for who, kind in ((MALLORY, "Normal"), (ADMIN, "Super"))
    ]  # fmt: skip
    settings: dict[str, dict[str, Any]] = {}
    for name in ("nameserver", "broker"):
        file = folder / f"{name}-users" / "auth.json"
        file.parent.mkdir()
        file.write_text(json.dumps({"version": 1, "users": users, "acls": []}))
        file.chmod(0o600)
        more = NO_SLAVES if name == "broker" else {}
        settings[name] = auth_settings(authConfigPath=file.parent, **more)
    return settings


def write_accounts_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The settings of servers with ACL 1.0, by server."""
    supers = [account(each, admin=True) for each in (ADMIN, INNER)]
    for name in ("nameserver", "broker"):
        write_accounts(folder / name / "plain_acl.yml", *supers, account(MALLORY))
    own = {"aclEnable": "true"}
    return {"nameserver": own, "broker": {**own, **NO_SLAVES, **inner_setting()}}


def answers(peer: Stranger, requests: Sequence[Request], kind: int) -> list[Answered]:
    """The answers to requests that are written at once, in the order of the requests."""
    frames = [frame_of(each, kind, opaque) for opaque, each in enumerate(requests)]
    peer.socket.sendall(b"".join(frames))
    found = [read_answer(peer) for _ in frames]
    return sorted(found, key=lambda answer: answer.opaque)


def frame_of(request: Request, kind: int, opaque: int, flag: int = 0) -> bytes:
    """A request in a coding of headers, as its asker signs it."""
    who, code, fields, body = request
    fields = signed(who, code, fields, body)
    return encode_command(
        Command(code, flag=flag, opaque=opaque, fields=fields, body=body, kind=kind)
    )


def read_answer(peer: Stranger) -> Answered:
    """The next answer, in either coding."""
    command = Command(*decode_command(*parts_of(read_frame(peer.socket))))
    assert command.flag & RESPONSE
    return Answered(
        command.code, command.remark or "", command.fields, command.body, command.opaque
    )


def request_of(
    who: Credentials | None, rule: RequestRule, fits: Fits, topic: str | None
) -> Request:
    """A request that names a topic or group in each place where one can stand; None: a new one each time."""
    kinds, form = fits[rule.code]
    fields = {
        name: topic
        if topic and kind == "topic"
        else f"{kind}-{name}"
        if kind in {"topic", "group"}
        else "1"
        for name, kind in kinds.items()
    }
    body = (
        form if isinstance(form, bytes) else b"" if form is None else json.dumps(form).encode()
    )
    return who, int(rule.code), fields, body


SEND = send_fields(OWNED)


def neighbours(server: str) -> list[Request]:
    """Requests of a Super user, which succeed: one that is answered at once, and a send that is taken as bytes."""
    if server == "nameserver":
        return [(ADMIN, Code.GET_BROKER_CLUSTER_INFO, {}, b"")]
    return [
        (ADMIN, Code.GET_BROKER_RUNTIME_INFO, {}, b""),
        (ADMIN, Code.SEND_MESSAGE_V2, SEND, b"x"),
    ]


WAYS = 5


def pipelines(asked: Request, beside: list[Request]) -> list[list[Request]]:
    """The `WAYS` of a request beside those of others in one write."""
    return [
        [asked],
        [asked] * 20,
        [*beside, asked],
        [asked, *beside],
        [*beside, asked, *beside, asked, *beside[::-1], asked],
    ]


@pytest.mark.parametrize("kind", [JSON, ROCKETMQ], ids=["json", "binary"])
@pytest.mark.parametrize(("server", "rule"), ROWS)
def test_who_has_no_right_is_refused_on_every_way_to_a_handler(servers, server, rule, kind):
    beside = neighbours(server)
    is_free = servers.guard == "acl" and server == "nameserver" and rule.code in OF_ACCOUNTS

    def ask(requests: Sequence[Request]) -> list[Answered]:
        found = answers(peer, requests, kind)
        for sent, answer in zip(requests, found, strict=True):
            assert sent not in beside or answer.code == OK, answer
            if sent[:3] == (ADMIN, Code.SEND_MESSAGE_V2, SEND):
                servers.stored.append(answer)
        return found

    with Stranger(getattr(servers, server).address) as peer:
        # A Super user has signed here: the fast way of sends waits for his next ones.
        ask(beside * 2)
        for number, who in enumerate(ASKERS.values()):
            # A way with one of the two has the other one in the other coding of headers.
            topics = cycle((None, OWNED) if (number + kind) % 2 else (OWNED, None))
            for way in range(WAYS):
                asked = request_of(who, rule, TABLES[server][1], next(topics))
                pipeline = pipelines(asked, beside)[way]
                for sent, answer in zip(pipeline, ask(pipeline), strict=True):
                    if sent is asked:
                        is_refused = not (is_free and who is MALLORY)
                        assert (answer.code == REFUSED) == is_refused, (who, answer)
            # Without an answer it is not done either, and those behind it are.
            asked = request_of(who, rule, TABLES[server][1], next(topics))
            peer.socket.sendall(frame_of(asked, kind, 0, ONEWAY))
            ask(beside)


def test_behind_all_of_it_nothing_is_there_that_the_super_user_has_not_made(servers):
    """The cases above have asked for everything that a request can change."""
    of_topic = {"topic": OWNED, "queueId": "0"}
    with Stranger(servers.broker.address) as peer:
        topics, groups, end = answers(
            peer,
            [
                (ADMIN, Code.GET_ALL_TOPIC_CONFIG, {}, b""),
                (ADMIN, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}, b""),
                (ADMIN, Code.GET_MAX_OFFSET, of_topic, b""),
            ],
            JSON,
        )
        for word in (b"topic-", b"group-"):
            assert word not in topics.body
            assert word not in groups.body
        assert end.code == OK or not servers.stored, end
        assert int(end.fields.get("offset", 0)) == len(servers.stored)
        if servers.guard == "auth":
            [users] = answers(peer, [(ADMIN, Code.AUTH_LIST_USER, {}, b"")], JSON)
            names = sorted(each["username"] for each in json.loads(users.body))
            assert names == ["inner", "mallory", "root", ADMIN.access_key]


@pytest.mark.parametrize("kind", [JSON, ROCKETMQ], ids=["json", "binary"])
def test_no_code_is_a_word_at_the_ha_port(servers, kind):
    """Signed or not: an address that may not copy is given nothing, whatever it says."""
    for rule, who in product(broker_table.RULES, (None, MALLORY, ADMIN)):
        frame = frame_of(request_of(who, rule, BROKER, OWNED), kind, 1)
        with (
            Stranger(f"127.0.0.1:{servers.broker.port + 1}", source=ELSEWHERE) as peer,
            suppress(ConnectionError),
        ):
            peer.socket.sendall(frame)
            assert peer.socket.recv(100) == b"", rule
