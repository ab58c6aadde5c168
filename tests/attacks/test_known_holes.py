"""Holes that RocketMQ had or has, asked of our servers with access control: each test is named after its number in the list.

S1 CVE-2023-33246, S2 CVE-2023-37582, S3 CVE-2024-23321, S4 settings without login, S7 CVE-2019-17572, S12 what errors tell, S13 plain secrets, S14 TLS that is off in practice, S15 signatures that come again.
"""

import json
import random
import stat
from functools import partial

import pytest

from cometmq import Credentials
from cometmq.broker import requests as broker_requests
from cometmq.model.codes import ResponseCode
from cometmq.nameserver import requests as nameserver_requests
from tests.attacks.stranger import Stranger
from tests.fuzz.fitting import BROKER, NAMESERVER, FittingRequests
from tests.support.accounts import ADMIN, CANARY, account, guarded_cluster
from tests.support.auth_users import signed
from tests.support.frames import json_frame

ORDINARY = Credentials("ordinary-user", f"{CANARY}-ordinary")
HOSTILE = [
    "$(touch x)", "`touch x`", "; touch x", "| touch x", "&& touch x", "${IFS}touch", "../../x", "/etc/passwd", "..\\x", "%2e%2e/x",
    "\0", "a\nfilterServerNums=1", "-c sh", "x" * 5_000, "\u202e", "CON", "x.", " x ", "*", "~", "!x", "{{7*7}}", "%n%s", "'", '"',
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    own = account(ORDINARY, topicPerms=["mine=PUB|SUB"], groupPerms=["mine=SUB"])
    with guarded_cluster(folder, own) as (names, broker):
        yield names, broker, folder


def files_of(folder):
    """All files below, with what is in those of settings; what a running store writes by itself is left out."""
    return {
        str(path): path.read_bytes() if path.suffix in {".conf", ".yml"} else b""
        for path in folder.rglob("*")
        if path.is_file() and "store" not in path.parts and path.suffix != ".log"
    }


def test_s1_no_setting_of_a_broker_reaches_a_shell_or_a_path(cluster):
    _, broker, folder = cluster
    before = files_of(folder)
    keys = [
        "rocketmqHome",
        "filterServerNums",
        "storePathRootDir",
        "storePathCommitLog",
        "brokerIP1",
        "aclEnable",
        "aclFolder",
    ]
    keys += [
        "namesrvAddr",
        "listenPort",
        "authConfigPath",
        "tls.server.keyPath",
        "adminWithoutTls",
    ]
    with Stranger(broker.address) as stranger:
        ask = partial(stranger.ask_as, ADMIN)
        for key in keys:
            for value in HOSTILE:
                text = "".join(f"\\u{ord(sign):04x}" for sign in value if ord(sign) < 1 << 16)
                answer = ask(25, body=f"{key}={text}\n".encode())
                assert answer.code in {
                    ResponseCode.NO_PERMISSION,
                    ResponseCode.INVALID_PARAMETER,
                }
        assert (
            partial(stranger.ask_as, ORDINARY)(25, body=b"brokerPermission=4\n").code
            == ResponseCode.NO_PERMISSION
        )
    assert files_of(folder) == before


def test_s2_no_setting_of_a_nameserver_writes_a_file(cluster):
    names, _, folder = cluster
    before = files_of(folder)
    with Stranger(names.address) as stranger:
        ask = partial(stranger.ask_as, ADMIN)
        for key in (
            "configStorePath",
            "configStorePathName",
            "kvConfigPath",
            "rocketmqHome",
            "aclFolder",
            "tls.server.certPath",
        ):
            for value in HOSTILE:
                text = "".join(f"\\u{ord(sign):04x}" for sign in value if ord(sign) < 1 << 16)
                assert ask(318, body=f"{key}={text}\n".encode()).code != ResponseCode.SUCCESS
    assert files_of(folder) == before


@pytest.mark.parametrize("who", [ADMIN, ORDINARY], ids=["admin", "ordinary"])
def test_s3_no_answer_of_any_code_holds_a_secret(cluster, who):
    names, broker, _ = cluster
    for program, rules, fits in (
        (broker, broker_requests.RULES, BROKER),
        (names, nameserver_requests.RULES, NAMESERVER),
    ):
        with Stranger(program.address) as stranger:
            ask = partial(stranger.ask_as, who)
            for code in (*(int(rule.code) for rule in rules), 54):
                if code in {
                    15,
                    17,
                    25,
                    50,
                    51,
                    53,
                    318,
                }:  # They change what others of this module ask for.
                    continue
                kinds, form = fits.get(code, ({}, None))
                fields = {
                    name: "mine" if kind in {"topic", "group"} else "0"
                    for name, kind in kinds.items()
                }
                body = json.dumps(form).encode() if isinstance(form, dict) else b""
                answer = ask(code, fields, body)
                assert CANARY.encode() not in answer.body
                assert CANARY not in answer.remark + str(answer.fields)


def test_s4_settings_are_neither_told_nor_changed_without_login(cluster):
    for program, codes in ((cluster[1], (25, 26, 28)), (cluster[0], (318, 319))):
        with Stranger(program.address) as stranger:
            for code in codes:
                assert (
                    stranger.ask(code, body=b"brokerPermission=4\n").code
                    == ResponseCode.NO_PERMISSION
                )


def test_s7_hostile_names_of_users_and_files_reach_no_path(cluster):
    _, broker, folder = cluster
    before = {path for path in files_of(folder) if "plain_acl" not in path}
    with Stranger(broker.address) as stranger:
        ask = partial(stranger.ask_as, ADMIN)
        for value in HOSTILE:
            name = value.replace("\0", "0")
            assert (
                ask(53, {"globalWhiteAddrs": "10.0.0.1", "aclFileFullPath": name}).code
                != ResponseCode.SUCCESS
            )
            assert ask(51, {"accessKey": name}).code != ResponseCode.SUCCESS
            made = ask(
                50,
                {
                    "accessKey": f"hostile {name}",
                    "secretKey": f"{CANARY}{name}",
                    "topicPerms": name,
                },
            )
            assert made.code in {209, ResponseCode.NO_PERMISSION}
        assert ask(52).code == ResponseCode.SUCCESS
    assert {path for path in files_of(folder) if "plain_acl" not in path} == before


def test_s12_errors_tell_nothing_of_our_insides(cluster):
    """Nor do they end a connection: signed requests of every code with absurd values, and unsigned ones."""
    names, broker, _ = cluster
    chance = random.Random(12)
    for program, table in ((broker, BROKER), (names, NAMESERVER)):
        requests = FittingRequests(
            {code: fits for code, fits in table.items() if code not in {25, 51, 318}}, 12
        )
        with Stranger(program.address) as stranger:
            for opaque in range(400):
                frame = requests.frame(opaque)
                header = json.loads(frame[8 : 8 + int.from_bytes(frame[5:8], "big")])
                body = frame[8 + int.from_bytes(frame[5:8], "big") :]
                fields = header["extFields"]
                if chance.random() < 0.8 and all(
                    isinstance(text, str) for text in fields.values()
                ):
                    try:
                        fields = signed(ADMIN, header["code"], fields, body)
                    except Exception:
                        continue
                stranger.socket.sendall(json_frame(header["code"], fields, body, opaque=opaque))
                while (answer := stranger.read()).opaque != opaque or not answer.is_answer:
                    pass
                for word in ("Traceback", "cometmq.", ".py", "Error(", str(program.log.parent)):
                    assert word not in answer.remark, answer
        assert "Traceback" not in program.log.read_text()


def test_s13_files_of_secrets_are_their_owners_and_no_default_account_works(cluster):
    _, broker, folder = cluster
    for path in folder.rglob("plain_acl.yml"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    with Stranger(broker.address) as stranger:
        for name, secret in (
            ("RocketMQ", "12345678"),
            ("rocketmq2", "12345678"),
            ("admin", "admin"),
            ("rocketmq", "1234567"),
        ):
            answer = stranger.ask_as(Credentials(name, secret), 26)
            assert answer.code == ResponseCode.NO_PERMISSION


def test_s15_a_signature_fits_no_other_request_of_other_values(cluster):
    """What is signed has neither code nor separators, as in RocketMQ: it fits requests with the same text, and no other."""
    _, broker, _ = cluster
    fields = signed(ORDINARY, 30, {"topic": "mine", "queueId": "0"})
    with Stranger(broker.address) as stranger:
        assert stranger.ask(30, fields).code != ResponseCode.NO_PERMISSION
        for changed in (
            {"topic": "other"},
            {"queueId": "1"},
            {"AccessKey": ADMIN.access_key},
            {"more": "1"},
        ):
            assert stranger.ask(30, {**fields, **changed}).code == ResponseCode.NO_PERMISSION
        # The rights are those of the code that comes, whatever the signature was made for.
        assert stranger.ask(215, fields).code == ResponseCode.NO_PERMISSION
