"""The files of ACL 1.0: read with their lines, refused where others read them, followed, and changed over the wire."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.access.account_edits import AccountEdits
from cometmq.access.account_files import AccountFiles
from cometmq.access.account_text import read_accounts
from cometmq.access.accounts import FolderAccounts
from cometmq.access.address_pattern import AddressPattern
from cometmq.access.keys import AccessKeys
from cometmq.access.known_users import known_users
from cometmq.codec.headers.account import UpdateAccount
from cometmq.model.credentials import Credentials
from cometmq.model.errors import SettingsError
from cometmq.model.rights import Access, Action, Resource, Right
from cometmq.net.clock import SystemClock
from tests.support.accounts import ADMIN, CANARY, account, write_accounts

FILE = f"""\
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.*

accounts:
- accessKey: RocketMQ
  secretKey: {CANARY}
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  - groupA=DENY
  - "%RETRY%groupB=SUB"
- accessKey: rocketmq2
  secretKey: 12345678
  whiteRemoteAddress: 192.168.1.*
  admin: true
"""


def write(folder, text, name="plain_acl.yml", mode=0o600):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def account_of(files, name):
    found = files.current.find(name)
    assert found is not None
    return found


def may(account, resource, name, action):
    return account.may(Access(resource, name, frozenset({action})), Right.WRITER, "10.0.0.1")


def test_a_file_of_rocketmq_is_read_as_it_is(tmp_path):
    write(tmp_path, FILE)
    files = AccountFiles(str(tmp_path))
    one, two = account_of(files, "RocketMQ"), account_of(files, "rocketmq2")
    assert two.is_super
    assert two.secret == b"12345678"
    topic, group = Resource.TOPIC, Resource.GROUP
    assert may(one, topic, "topicB", Action.PUB)
    assert may(one, topic, "topicC", Action.SUB)
    assert not may(one, topic, "topicC", Action.PUB)
    assert may(one, topic, "topicC", Action.GET)
    assert not may(one, topic, "topicA", Action.GET)
    assert not may(one, topic, "other", Action.SUB)
    assert not may(one, topic, "topicB", Action.DELETE)
    assert may(one, group, "other", Action.SUB)
    assert may(one, group, "groupB", Action.SUB)
    assert not may(one, group, "groupA", Action.SUB)
    assert may(one, topic, "RMQ_SYS_TRACE_TOPIC", Action.PUB)
    assert CANARY not in repr(one)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("accounts:\n- accessKey: short\n  secretKey: 12345678\n", 2, "accessKey has 5 characters"),
        (f"accounts:\n- accessKey: longer1\n  secretKey: {CANARY[:6]}\n", 3, "secretKey has 6 char"),
        ("accounts:\n- accessKey: longer1\n", 2, "has no secretKey"),
        ("accounts:\n- accessKey: longer1\n  secretKey: [a]\n", 3, "secretKey is not a single value"),
        ("accounts:\n- accessKey: longer1\n  secretKey: {a: b}\n", 3, "secretKey is not a single value"),
        ("accounts:\n  accessKey: longer1\n", 2, "accounts is not a list"),
        ("- a\n", 1, "not a YAML mapping"),
        ("accountz: []\n", 1, "did you mean accounts"),
        ("accounts:\n- accessKey: longer1\n  secretKey: 12345678\n  adminn: true\n", 4, "did you mean admin"),
        ("accounts:\n- accessKey: longer1\n  secretKey: 12345678\n  admin: perhaps\n", 4, "true or false"),
        ("accounts:\n- accessKey: longer1\n  secretKey: 12345678\n  topicPerms:\n  - a=PUBLISH\n", 5, "one of DENY"),
        ("accounts:\n- accessKey: longer1\n  secretKey: 12345678\n  topicPerms:\n  - =PUB\n", 5, "an entry must be NAME"),
        ("accounts:\n- accessKey: longer1\n  secretKey: 12345678\n  defaultTopicPerm: ALL\n", 4, "one of DENY"),
        ("accounts:\n- accessKey: longer1\n  secretKey: 12345678\n  accessKey: longer2\n", 4, "appears twice"),
        ("accounts:\n- accessKey: longer1\n  secretKey: 12345678\n  whiteRemoteAddress: 10.0.0\n", 4, "not an address"),
        ("globalWhiteRemoteAddresses:\n- 10.0.0.1\n- 10.0.0.5-1\n", 3, "not an address"),
        ("accounts:\n- accessKey: 'x\n", 3, "not valid YAML"),
        ("accounts:\n- &a {accessKey: longer1, secretKey: 12345678}\n- *a\n", 2, "another account has the same accessKey"),
        ("a: " + "[" * 5000, 1, "YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line_and_without_its_secret(
    tmp_path, text, line, words
):
    path = write(tmp_path, text)
    with pytest.raises(SettingsError, match=words) as caught:
        AccountFiles(str(tmp_path))
    said = str(caught.value)
    assert f"{path}, line {line}: " in said or "[[[" in text
    assert CANARY[:6] not in said


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "plain_acl.yml").write_bytes(b"accounts:\n- accessKey: \xff\xfe\n")
    (tmp_path / "plain_acl.yml").chmod(0o600)
    with pytest.raises(SettingsError, match=r"plain_acl\.yml"):
        AccountFiles(str(tmp_path))


@pytest.mark.parametrize("mode", [0o604, 0o640 | 0o004, 0o660, 0o602, 0o644])
def test_a_file_that_others_may_read_or_write_is_refused(tmp_path, mode):
    write(tmp_path, FILE, mode=mode)
    with pytest.raises(SettingsError, match="chmod 600"):
        AccountFiles(str(tmp_path))


def test_without_a_file_or_an_account_nothing_starts(tmp_path):
    with pytest.raises(SettingsError, match=r"neither plain_acl\.yml nor acl"):
        AccountFiles(str(tmp_path))
    write(tmp_path, "accounts: []\n")
    with pytest.raises(SettingsError, match="no account"):
        AccountFiles(str(tmp_path))


def test_folders_below_acl_are_read_and_an_account_stands_in_one_file(tmp_path, caplog):
    write(tmp_path, FILE)
    write(tmp_path, "accounts:\n- {accessKey: deeper1, secretKey: 12345678}\n", "acl/a/b.yaml")
    write(tmp_path, "accessKey: mine\n", "acl/tools.yml", mode=0o644)
    files = AccountFiles(str(tmp_path))
    assert len(files.current) == 3
    write(tmp_path, "accounts:\n- {accessKey: deeper1, secretKey: 87654321}\n", "acl/z.yml")
    assert not files.look()
    assert account_of(files, "deeper1").secret == b"12345678"
    assert "z.yml, line 2: " in caplog.text


def test_a_change_is_seen_and_a_broken_one_keeps_what_was(tmp_path, caplog):
    path = write(tmp_path, FILE)
    files = AccountFiles(str(tmp_path))
    assert not files.look()
    write(tmp_path, FILE.replace("rocketmq2", "rocketmq3"))
    assert files.look()
    assert files.current.find("rocketmq2") is None
    assert files.current.find("rocketmq3")
    write(tmp_path, FILE.replace("topicA=DENY", "topicA=DENIED"))
    assert not files.look()
    assert files.current.find("rocketmq3")
    assert f"{path}, line 13: " in caplog.text
    assert CANARY not in caplog.text
    # It is told of once, and what is mended counts again.
    caplog.clear()
    assert not files.look()
    assert not caplog.text
    path.chmod(0o644)
    assert not files.look()
    assert "chmod 600" in caplog.text
    write(tmp_path, FILE)
    assert files.look()
    assert files.current.find("rocketmq2")
    path.unlink()
    caplog.set_level(logging.INFO)
    assert files.look()
    # Nobody may do anything, which is what an empty folder says.
    assert len(files.current) == 0


def test_addresses_are_those_of_rocketmq():
    text = read_accounts(
        b"globalWhiteRemoteAddresses: ['10.0.0.{1,2}', '1050:0:0:0:5:600:300c:*', '*']", "f"
    )
    assert len(text.white) == 3
    with pytest.raises(SettingsError, match="line 1"):
        read_accounts(b"globalWhiteRemoteAddresses: ['10.0.*']", "f")


ONE = "accounts:\n- {accessKey: %s, secretKey: '01234567'}\n"


def editing(folder) -> tuple[AccountFiles, AccountEdits]:
    """The files of accounts in a folder, and what changes them."""
    files = AccountFiles(str(folder))
    return files, AccountEdits(files, SystemClock())


def test_accounts_are_changed_in_their_file_and_in_force_at_once(tmp_path):
    write(tmp_path, FILE)
    other = write(tmp_path, ONE % "deeper1", "acl/a.yml", 0o640)
    files, edits = editing(tmp_path)
    edits.change(UpdateAccount("deeper1", topic_perms="t=PUB,u=SUB", default_group_perm="SUB"))
    assert account_of(files, "deeper1").secret == b"01234567"
    assert may(files.current.find("deeper1"), Resource.TOPIC, "t", Action.PUB)
    assert other.stat().st_mode & 0o777 == 0o640
    edits.change(
        UpdateAccount("another", "12345678", admin=True, white_remote_address="10.0.0.1")
    )
    assert account_of(files, "another").is_super
    edits.delete("RocketMQ")
    edits.set_white("10.0.0.1, 10.0.0.2", None)
    again = AccountFiles(str(tmp_path), is_white_unsigned=True)
    assert len(again.current) == len(files.current) == 3
    assert again.current.is_unasked("10.0.0.2")
    assert not again.current.is_unasked("10.10.103.1")
    versions = [text.version for text in again.texts.values() if text.version]
    assert [counter for counter, _ in versions] == [3, 1]


def test_a_change_keeps_what_was_written_by_hand_since_the_last_look(tmp_path):
    write(tmp_path, FILE)
    write(tmp_path, ONE % "deeper1", "acl/a.yml")
    gone = write(tmp_path, ONE % "deeper2", "acl/b.yml")
    files, edits = editing(tmp_path)
    changed = write(tmp_path, ONE % "byhand1", "acl/a.yml")
    gone.unlink()
    edits.change(UpdateAccount("byhand1", topic_perms="t=PUB"))
    assert "t=PUB" in changed.read_text()
    assert files.current.find("deeper1") is None
    assert files.current.find("deeper2") is None
    write(tmp_path, ONE % "byhand2", "acl/c.yml")
    edits.delete("byhand2")
    assert sorted(files.current.accounts) == ["RocketMQ", "byhand1", "rocketmq2"]


def test_what_is_written_by_hand_during_a_change_is_found_by_the_next_look(tmp_path):
    class Interrupted(SystemClock):
        """Files are written while a change asks for the time."""

        by_hand: list[Callable[[], object]]

        def now_ms(self):
            for by_hand in self.by_hand:
                by_hand()
            return super().now_ms()

    path = write(tmp_path, FILE)
    gone = write(tmp_path, ONE % "deeper1", "acl/a.yml")
    files = AccountFiles(str(tmp_path))
    clock = Interrupted()
    clock.by_hand = [lambda: write(tmp_path, ONE % "byhand1", "acl/b.yml"), gone.unlink]
    edits = AccountEdits(files, clock)
    edits.change(UpdateAccount("another", "12345678"))
    assert files.look()
    names = ["RocketMQ", "another", "byhand1", "rocketmq2"]
    assert sorted(files.current.accounts) == names
    clock.by_hand = [lambda: write(tmp_path, FILE.replace("rocketmq2", "byhand2"))]
    with pytest.raises(SettingsError, match="was changed meanwhile; try again"):
        edits.delete("another")
    assert "byhand2" in path.read_text()
    assert not files.look() or "byhand2" in files.current.accounts


def test_a_change_that_cannot_be_used_changes_nothing(tmp_path):
    path = write(tmp_path, "accounts:\n- {accessKey: onlyone, secretKey: 12345678}\n")
    before = path.read_bytes()
    _, edits = editing(tmp_path)
    for change in (
        UpdateAccount("short", "12345678"),
        UpdateAccount("longer1"),
        UpdateAccount("longer1", "123"),
        UpdateAccount("onlyone", topic_perms="t"),
        UpdateAccount("onlyone", white_remote_address="nowhere"),
    ):
        with pytest.raises(SettingsError):
            edits.change(change)
    with pytest.raises(SettingsError, match="the last account cannot be removed"):
        edits.delete("onlyone")
    with pytest.raises(SettingsError, match="no account has this accessKey"):
        edits.delete("nobody1")
    for name in ("../plain_acl.yml", str(tmp_path / "other.yml"), "/etc/passwd"):
        with pytest.raises(SettingsError, match="not an account file"):
            edits.set_white("*", name)
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["plain_acl.yml"]


def test_no_account_is_found_in_an_empty_table():
    assert FolderAccounts({}).find("x") is None


@pytest.mark.parametrize("way", ["delete", "change"])
def test_the_last_admin_could_be_deleted_or_made_another(tmp_path, way):
    admin = account(ADMIN, admin=True)
    other = account(Credentials("the-other", f"{CANARY}-other"))
    write_accounts(tmp_path / "plain_acl.yml", admin, other)
    files, edits = editing(tmp_path)
    ways = {
        "delete": lambda: edits.delete("the-admin"),
        "change": lambda: edits.change(UpdateAccount("the-admin", admin=False)),
    }
    with pytest.raises(SettingsError, match="last account must keep admin"):
        ways[way]()
    for current in (files.current, AccountFiles(str(tmp_path)).current):
        found = current.find("the-admin")
        assert found is not None
        assert found.is_super


def test_accounts_that_somebody_else_could_have_put_there_were_in_force(tmp_path):
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    write(real, FILE)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "plain_acl.yml").symlink_to(real / "plain_acl.yml")
    assert len(AccountFiles(str(linked)).current)
    linked.chmod(0o1777)  # As a volume of secrets is mounted.
    assert len(AccountFiles(str(linked)).current)
    for folder in (linked, real):
        before = folder.stat().st_mode
        folder.chmod(0o777)
        with pytest.raises(SettingsError, match="other users may write to it"):
            AccountFiles(str(linked))
        folder.chmod(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")
def test_accounts_of_another_user_were_in_force(tmp_path):
    path = write(tmp_path, FILE)
    os.chown(path, 12_345, 12_345)
    with pytest.raises(SettingsError, match="belongs to another user"):
        AccountFiles(str(tmp_path))


@pytest.mark.parametrize(
    ("pattern", "within", "without"),
    [
        ("", [], ["10.0.0.1", "::1"]),
        ("*", ["10.0.0.1", "::1"], []),
        ("*.*.*.*", ["10.0.0.1", "::1"], []),
        ("10.0.0.1", ["10.0.0.1"], ["10.0.0.10", "10.0.0.2"]),
        ("10.0.*.*", ["10.0.0.1", "10.0.255.3"], ["10.1.0.1", "::1"]),
        ("10.0.0.1-20", ["10.0.0.1", "10.0.0.20"], ["10.0.0.0", "10.0.0.21"]),
        ("10.0.1-2.*", ["10.0.1.9", "10.0.2.0"], ["10.0.3.0"]),
        ("10.0.0.{1,22}", ["10.0.0.1", "10.0.0.22"], ["10.0.0.2"]),
        ("10.0.0.1,10.0.0.7", ["10.0.0.7"], ["10.0.0.2"]),
        ("1050::5:600:300c:1", ["1050::5:600:300c:1"], ["1050::5:600:300c:2"]),
        ("[1050::5:600:300c:1]", ["1050::5:600:300c:1"], ["1050::5:600:300c:2"]),
        ("1050:0:0:0:5:600:300c:*", ["1050::5:600:300c:9"], ["1051::5:600:300c:9", "10.0.0.1"]),
        ("1050:0:0:0:5:600:300c:1-a", ["1050::5:600:300c:a"], ["1050::5:600:300c:b"]),
    ],
)
def test_a_pattern_means_these_addresses(pattern, within, without):
    read = AddressPattern(pattern)
    assert [ip for ip in within if not read.holds(ip)] == []
    assert [ip for ip in without if read.holds(ip)] == []


@pytest.mark.parametrize(
    "pattern",
    ["10.0.0", "10.0.*", "256.0.0.1", "10.0.0.5-1", "10.0.0.a-b", "host", "10.0.0.{}", "10.0.0.1/24", "1::*", "-", "10.0.0.-5"],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(pattern):
    with pytest.raises(ValueError, match="is not an address"):
        AddressPattern(pattern)


def settings(folder: Path) -> AccessKeys:
    return AccessKeys(is_authentication_enabled=True, is_migrated=True, acl_folder=str(folder))


def test_accounts_become_users(tmp_path: Path):
    write_accounts(tmp_path / "plain_acl.yml", account(ADMIN, admin=True))
    known_users(settings(tmp_path), str(tmp_path / "config"), "c")
    again = known_users(settings(tmp_path), str(tmp_path / "config"), "c")
    assert again.current.users.keys() == {ADMIN.access_key}


@pytest.mark.parametrize(
    ("name", "secret", "why"),
    [
        ("the sender", f"{CANARY}-1", "username: use 1 to 128 letters"),
        ("käufer-eins", f"{CANARY}-1", "username: use 1 to 128 letters"),
        ("sender-one", "s" * 300, "password: it must be a text of at most 256 characters"),
    ],
)
def test_an_account_that_no_user_can_be_is_refused_by_name_before_it_is_stored(
    tmp_path: Path, name: str, secret: str, why: str
):
    write_accounts(
        tmp_path / "plain_acl.yml",
        account(ADMIN, admin=True),
        account(Credentials(name, secret)),
    )
    with pytest.raises(SettingsError, match=why) as refused:
        known_users(settings(tmp_path), str(tmp_path / "config"), "c")
    assert f"account '{name}' cannot become a user" in str(refused.value)
    assert secret not in str(refused.value)
    assert not (tmp_path / "config" / "auth.json").exists()


def test_what_another_broker_refuses_of_a_topic_is_refused_by_the_name_of_its_account(
    tmp_path: Path,
):
    sender = account(Credentials("sender-one", f"{CANARY}-1"), topicPerms=["a*b=PUB"])
    write_accounts(tmp_path / "plain_acl.yml", account(ADMIN, admin=True), sender)
    with pytest.raises(
        SettingsError, match=r"account 'sender-one' cannot .*resource: it must be"
    ):
        known_users(settings(tmp_path), str(tmp_path / "config"), "c")


def test_a_dry_run_stores_nothing_and_finds_the_same(tmp_path: Path):
    write_accounts(tmp_path / "plain_acl.yml", account(ADMIN, admin=True))
    dry = known_users(settings(tmp_path), str(tmp_path / "config"), "c", is_dry=True)
    assert dry.current.users.keys() == {ADMIN.access_key}
    assert not (tmp_path / "config").exists()
    there = replace(settings(tmp_path), auth_path=f"{tmp_path}/plain_acl.yml/config")
    with pytest.raises(
        SettingsError, match=r"^authConfigPath=.*plain_acl\.yml is not a folder"
    ):
        known_users(there, there.auth_path, "c", is_dry=True)
    known_users(settings(tmp_path), str(tmp_path / "config"), "c")
    stored = json.loads((tmp_path / "config" / "auth.json").read_text())
    assert [user["username"] for user in stored["users"]] == [ADMIN.access_key]
