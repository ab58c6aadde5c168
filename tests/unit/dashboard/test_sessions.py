"""Sessions end when they should; failed logins are counted."""

from __future__ import annotations

import pytest

from cometmq import Credentials
from cometmq.dashboard import login_attempts, sessions
from cometmq.dashboard.login_attempts import LoginAttempts
from cometmq.dashboard.passwords import Role
from cometmq.dashboard.sessions import Session, Sessions

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
