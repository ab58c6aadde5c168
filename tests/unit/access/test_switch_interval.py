"""Large files of accounts and users are read and written beside the loop, which has its turn in between."""

from __future__ import annotations

import gc
import sys
import threading

import orjson
import pytest

from cometmq.access import account_files, auth_users
from cometmq.access.account_edits import AccountEdits
from cometmq.access.account_files import AccountFiles
from cometmq.access.account_text import read_accounts
from cometmq.access.auth_users import AuthFile
from cometmq.access.owner_file import write_whole_file
from cometmq.access.switch_interval import SWITCH_SECONDS, ShortSwitchInterval
from cometmq.broker.admin.requests.users import listed
from cometmq.codec.headers.account import UpdateAccount
from cometmq.model.errors import RequestError
from cometmq.model.rights import Access, Action, Resource, Right
from cometmq.net.clock import SystemClock
from tests.support.accounts import ADMIN, account, write_accounts


def ways() -> tuple[float, bool]:
    """How threads take turns now, and whether circles are looked for."""
    return sys.getswitchinterval(), gc.isenabled()


@pytest.fixture
def before():
    found = ways()
    yield found
    assert ways() == found


def is_apart() -> bool:
    interval, is_collecting = ways()
    return interval == pytest.approx(SWITCH_SECONDS) and not is_collecting


def test_the_last_of_several_puts_everything_back(before):
    shortened = ShortSwitchInterval()
    inside, go = threading.Event(), threading.Event()

    def other():
        with shortened():
            inside.set()
            go.wait(60)

    thread = threading.Thread(target=other)
    with shortened():
        assert is_apart()
        thread.start()
        assert inside.wait(60)
    assert is_apart()
    go.set()
    thread.join(60)
    assert ways() == before


def test_what_fails_puts_everything_back_too(before):
    shortened = ShortSwitchInterval()
    with pytest.raises(ValueError, match="bad"), shortened():
        raise ValueError("bad")
    assert ways() == before


@pytest.mark.usefixtures("before")
def test_changed_accounts_are_read_beside_the_loop(tmp_path, monkeypatch):
    write_accounts(tmp_path / "plain_acl.yml", account(ADMIN, admin=True))
    files = AccountFiles(str(tmp_path))
    seen = []

    def read(content, path):
        seen.append(is_apart())
        return read_accounts(content, path)

    monkeypatch.setattr(account_files, "read_accounts", read)
    many = [
        {"accessKey": f"account-{number}", "secretKey": "12345678", "topicPerms": ["a=PUB"]}
        for number in range(50)
    ]
    write_accounts(tmp_path / "plain_acl.yml", account(ADMIN, admin=True), *many)
    assert files.look()
    assert seen == [True]
    assert len(files.current) == 51
    # The tree that they were read from is given up, and what one file shares with itself stands for both.
    text = read_accounts(
        b"accounts:\n- {accessKey: shared-1, secretKey: 12345678, topicPerms: &all [a=PUB]}\n"
        b"- {accessKey: shared-2, secretKey: 12345678, topicPerms: *all}\n",
        "f",
    )
    assert [set(each.topics) for _, each in text.accounts] == [{"a"}, {"a"}]


@pytest.mark.usefixtures("before")
def test_accounts_are_changed_beside_the_loop_and_their_words_stay(tmp_path):
    path = tmp_path / "plain_acl.yml"
    write_accounts(path, account(ADMIN, admin=True), {"accessKey": "0123456", "secretKey": "é-0x10-yes"})  # fmt: skip
    files = AccountFiles(str(tmp_path))
    AccountEdits(files, SystemClock()).change(
        UpdateAccount("another", secret_key="00012345", topic_perms="a=PUB,b=SUB")
    )
    for found in (files, AccountFiles(str(tmp_path))):
        assert {
            name: found.current.accounts[name].secret for name in ("0123456", "another")
        } == {"0123456": "é-0x10-yes".encode(), "another": b"00012345"}


@pytest.mark.usefixtures("before")
def test_users_are_written_beside_the_loop_and_old_decisions_are_given_up(
    tmp_path, monkeypatch
):
    seen = []

    def written(path, content):
        seen.append(is_apart())
        write_whole_file(path, content)

    monkeypatch.setattr(auth_users, "write_whole_file", written)
    users = AuthFile(str(tmp_path / "auth.json"), cluster="c", is_authorized=True)
    users.put_user("bob", {"password": "ünsigned"}, is_new=True)
    old = users.current.users["bob"]
    assert not old.may(
        Access(Resource.TOPIC, "a", frozenset({Action.PUB})), Right.WRITER, "10.0.0.1"
    )
    assert old.decided
    users.put_user("eve", {"password": "other-secret"}, is_new=True)
    assert not old.decided
    assert seen == [True, True]
    again = AuthFile(str(tmp_path / "auth.json"), cluster="c", is_authorized=True)
    assert {name: user.secret for name, user in again.current.users.items()} == {
        "bob": "ünsigned".encode(), "eve": b"other-secret",
    }  # fmt: skip


@pytest.mark.usefixtures("before")
def test_a_list_that_no_client_could_take_is_refused_with_what_makes_it_shorter():
    rows = [{"subject": f"User:{number}", "of": "x" * (1 << 20)} for number in range(15)]
    body = listed(iter(rows[:14]), "filter").body
    assert isinstance(body, bytes)
    assert orjson.loads(body) == rows[:14]
    assert listed(iter(()), "filter").body == b""
    with pytest.raises(RequestError, match="narrow it with subjectFilter"):
        listed(iter(rows), "subjectFilter")
