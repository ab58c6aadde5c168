"""Sessions end when they should; failed logins are counted."""

from __future__ import annotations

import json

import pytest

from cometmq import Credentials
from cometmq.dashboard import login_attempts, sessions
from cometmq.dashboard.audit import KEPT, Audit, AuditEntry
from cometmq.dashboard.login_attempts import LoginAttempts
from cometmq.dashboard.passwords import Role, UserFile, new_password
from cometmq.dashboard.sessions import Session, Sessions
from cometmq.model.errors import SettingsError

HOUR = 3600 * 1000


def session_of_admin() -> Session:
    all_of_them = Sessions()
    session = all_of_them.find(all_of_them.begin("a", Role.ADMIN, 0), 0)
    assert session is not None
    return session


def test_a_session_is_found_by_its_number_only():
    all_of_them = Sessions()
    token = all_of_them.begin("a", Role.READER, 0)
    session = all_of_them.find(token, 0)
    assert session is not None
    assert session.user == "a"
    for wrong in ("", token[:-1], token.lower(), "\udcff"):
        assert all_of_them.find(wrong, 0) is None
    assert token not in repr(vars(all_of_them))


@pytest.mark.parametrize(
    ("looks", "is_person", "is_there"),
    [
        ([HOUR], True, True),
        ([3 * HOUR], True, False),
        ([HOUR, 2 * HOUR, 3 * HOUR], True, True),
        # A part of a page that renews itself keeps nobody logged in.
        ([HOUR, 2 * HOUR, 3 * HOUR], False, False),
        ([hour * HOUR for hour in range(1, 13)], True, True),
        ([hour * HOUR for hour in range(1, 14)], True, False),
    ],
)
def test_a_session_ends_with_its_time(looks, is_person, is_there):
    all_of_them = Sessions()
    token = all_of_them.begin("a", Role.READER, 0)
    found = [all_of_them.find(token, now, is_person=is_person) for now in looks]
    assert (found[-1] is not None) is is_there
    if not is_there:
        assert all_of_them.find(token, 0) is None


def test_the_session_of_a_proxys_user_is_one_of_the_same_role_and_has_no_token_to_guess():
    all_of_them = Sessions()
    session, is_new = all_of_them.of_proxy("a", Role.READER, 0)
    assert (is_new, session.is_of_proxy, session.is_admin) == (True, True, False)
    assert all_of_them.of_proxy("a", Role.READER, HOUR) == (session, False)
    admin, is_new = all_of_them.of_proxy("a", Role.ADMIN, HOUR)
    assert (is_new, admin.is_admin) == (True, True)
    assert not admin.has_token(session.csrf)
    assert all_of_them.of_proxy("a", Role.READER, 4 * HOUR)[1], "it was not used for too long"
    for guessed in ("a", " reader a", "None reader a", "reader a"):
        assert all_of_them.find(guessed, HOUR) is None
    assert not all_of_them.of_proxy("admin a", Role.READER, HOUR)[0].is_admin


def test_sessions_are_bounded_in_all_and_of_a_user():
    all_of_them = Sessions()
    own = [
        all_of_them.begin("a", Role.READER, 0) for _ in range(sessions.SESSIONS_OF_USER_MAX + 3)
    ]
    assert all_of_them.find(own[2], 0) is None
    assert all_of_them.find(own[3], 0) is not None
    for number in range(sessions.SESSIONS_MAX):
        all_of_them.begin(f"user-{number}", Role.READER, 0)
    assert len(all_of_them) == sessions.SESSIONS_MAX
    assert all_of_them.find(own[-1], 0) is None


def test_secrets_are_forgotten_with_their_session():
    all_of_them = Sessions()
    credentials = Credentials("a", "secret")
    token = all_of_them.begin("a", Role.READER, 0, credentials=credentials)
    assert all_of_them.has_credentials(credentials)
    all_of_them.drop_ended(HOUR)
    assert all_of_them.has_credentials(credentials)
    all_of_them.drop_ended(3 * HOUR)
    assert not all_of_them.has_credentials(credentials)
    assert all_of_them.find(token, 0) is None


def test_a_form_is_good_once():
    session = session_of_admin()
    assert session.has_token(session.csrf)
    assert not session.has_token("")
    assert not session.has_token("\udcff")
    assert session.take_form("1")
    assert not session.take_form("1")
    assert session.take_form("2")


def test_notes_are_said_once_and_are_bounded():
    session = session_of_admin()
    for number in range(20):
        session.note(str(number))
    assert [text for _, text in session.take_notes()] == [
        str(number) for number in range(12, 20)
    ]
    assert session.take_notes() == []


def test_failures_of_a_name_make_its_address_wait_and_no_other():
    failed = LoginAttempts()
    for _ in range(login_attempts.OF_NAME_MAX):
        assert failed.wait_ms("1.1.1.1", "a", 1000) == 0
        failed.failed("1.1.1.1", "a", 1000)
    assert failed.wait_ms("1.1.1.1", "a", 1000) == login_attempts.WINDOW_MS
    assert failed.wait_ms("1.1.1.1", "a", 1000 + login_attempts.WINDOW_MS) == 0
    assert failed.wait_ms("1.1.1.1", "b", 1000) == 0
    assert failed.wait_ms("2.2.2.2", "a", 1000) == 0


def test_an_address_waits_whatever_names_it_tries():
    failed = LoginAttempts()
    for number in range(login_attempts.OF_ADDRESS_MAX):
        failed.failed("1.1.1.1", f"name-{number}", 1000)
    assert failed.wait_ms("1.1.1.1", "another", 1000) > 0


def test_a_right_password_counts_for_nothing():
    failed = LoginAttempts()
    for _ in range(100):
        failed.failed("1.1.1.1", "a", 1000)
        failed.succeeded("1.1.1.1", "a")
    assert failed.wait_ms("1.1.1.1", "a", 1000) == 0


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
    users.create("a", Role.READER, "first-password")
    other = UserFile(tmp_path / "deep" / "data")
    other.set("a", role=Role.ADMIN, password="second-password")
    assert users.check("a", "first-password") is None
    assert users.check("a", "second-password").role is Role.ADMIN
    other.create("b", Role.READER, "third-password")
    other.delete("a")
    assert list(users.users()) == ["b"]


def test_what_is_not_named_stays(users):
    users.create("a", Role.READER, "first-password")
    users.set("a", role=Role.ADMIN)
    assert users.check("a", "first-password").role is Role.ADMIN
    users.set("a", password="second-password")
    assert users.check("a", "second-password").role is Role.ADMIN
    with pytest.raises(SettingsError, match="has a user 'a'; cometmq dashboard user set"):
        users.create("a", Role.READER, "third-password")
    with pytest.raises(SettingsError, match="8 to 256 characters"):
        users.set("a", password="short")
    assert users.check("a", "second-password").role is Role.ADMIN


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
        users.create(name, Role.READER, password)
    assert not users.path.exists()


def test_the_last_user_stays(users):
    users.create("a", Role.READER, new_password())
    with pytest.raises(SettingsError, match="the last"):
        users.delete("a")
    for change in (users.delete, users.set):
        with pytest.raises(SettingsError, match="no user 'b'"):
            change("b")


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
