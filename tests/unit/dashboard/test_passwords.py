"""The file of users: hashes only, its owner's alone, and a damaged one lets nobody in."""

from __future__ import annotations

import json

import pytest

from cometmq.dashboard.audit import KEPT, Audit, AuditEntry
from cometmq.dashboard.passwords import Role, UserFile, new_password
from cometmq.model.errors import SettingsError


@pytest.fixture
def users(tmp_path):
    return UserFile(tmp_path / "deep" / "data")


def test_the_first_user_is_made_once(users):
    password = users.make_first()
    assert len(password) == 29
    assert users.make_first() is None
    assert users.check("admin", password).role is Role.ADMIN
    for name, wrong in (
        ("admin", password[:-1]),
        ("admin", ""),
        ("Admin", password),
        ("", ""),
        ("x", "\udcff"),
    ):
        assert users.check(name, wrong) is None
    assert password not in users.path.read_text()
    assert users.path.stat().st_mode & 0o777 == 0o600
    assert users.path.parent.stat().st_mode & 0o777 == 0o700


def test_another_process_changes_users_while_this_one_runs(users, tmp_path):
    users.put("a", Role.READER, "first-password")
    other = UserFile(tmp_path / "deep" / "data")
    other.put("a", Role.ADMIN, "second-password")
    assert users.check("a", "first-password") is None
    assert users.check("a", "second-password").role is Role.ADMIN
    other.put("b", Role.READER, "third-password")
    other.remove("a")
    assert list(users.users()) == ["b"]


@pytest.mark.parametrize(
    ("name", "password", "says"),
    [
        ("", "long-enough", "letters, digits"),
        ("a b", "long-enough", "letters, digits"),
        ("<b>", "long-enough", "letters, digits"),
        ("x" * 65, "long-enough", "letters, digits"),
        ("a\n", "long-enough", "letters, digits"),
        ("a", "short", "8 to 256 characters"),
        ("a", "x" * 257, "8 to 256 characters"),
    ],
)
def test_what_cannot_be_a_user_is_refused(users, name, password, says):
    with pytest.raises(SettingsError, match=says):
        users.put(name, Role.READER, password)
    assert not users.path.exists()


def test_the_last_user_stays(users):
    users.put("a", Role.READER, new_password())
    with pytest.raises(SettingsError, match="the last"):
        users.remove("a")
    with pytest.raises(SettingsError, match="no user 'b'"):
        users.remove("b")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b'{"version": 2, "users": []}',
        b'{"version": 1}',
        b'{"version": 1, "users": [1]}',
        b'{"version": 1, "users": [{"name": "a", "role": "god", "password": "x"}]}',
        b'{"version": 1, "users": [{"name": "a", "role": "admin", "password": "plain"}]}',
        b'{"version": 1, "users": [{"name": "a", "role": "admin", "password": "scrypt$1$8$1$AA==$AA=="}]}',
        b" " * (1 << 20) + b"{}",
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_refused_and_kept(users, content):
    users.path.parent.mkdir(parents=True)
    users.path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"users\.json is not a valid users file"):
        users.users()
    with pytest.raises(SettingsError):
        users.make_first()
    assert users.path.read_bytes() == content


def test_a_folder_that_cannot_be_searched_is_told(tmp_path):
    (tmp_path / "data").write_bytes(b"")
    with pytest.raises(SettingsError, match=r"users\.json cannot be read: Not a directory"):
        UserFile(tmp_path / "data").users()


def test_the_audit_is_kept_over_a_start_and_turned_over(tmp_path):
    audit = Audit(tmp_path)
    audit.open()
    for number in range(KEPT + 5):
        audit.write(
            AuditEntry(
                number,
                "a",
                "1.1.1.1",
                "send message",
                "t" * 9000 if number == 3 else "t",
                "done",
            )
        )
    again = Audit(tmp_path)
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'{"ms": "x"\n[1]\nnull\n\xff\n')
    again.open()
    assert [each.ms for each in again.last()] == list(range(KEPT + 4, 4, -1))
    lines = (tmp_path / "audit.jsonl").read_bytes().splitlines()
    assert max(map(len, lines)) < 1000
    assert json.loads(lines[0])["from"] == "1.1.1.1"
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.truncate(10 << 20)
    again.write(AuditEntry(1, "a", "b", "c", "d", "e"))
    assert (tmp_path / "audit.1.jsonl").stat().st_size == 10 << 20
    assert len((tmp_path / "audit.jsonl").read_bytes().splitlines()) == 1
