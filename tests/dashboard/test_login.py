"""Nobody sees a page without a login; a session ends when it should, and everywhere at once."""

import re

import httpx
import pytest

from cometmq.dashboard.pages import PAGES
from tests.dashboard.web import (
    ADMIN,
    READER,
    READER_PASSWORD,
    Served,
    Visitor,
    hidden,
    text_of,
)
from tests.support.command_line import run
from tests.support.processes import wait_until


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_no_page_is_for_strangers(stranger, page):
    ask = stranger.http.post if page.does else stranger.http.get
    said = ask(page.path)
    if page.is_part:
        assert said.status_code == 401
        assert said.headers["hx-redirect"].startswith("/login")
    else:
        assert said.status_code == 303
        assert said.headers["location"].startswith("/login")
    assert not said.text


def test_a_page_that_is_not_there_leads_strangers_to_the_login(stranger, reader):
    assert stranger.http.get("/no/such/page").headers["location"] == "/login"
    said = reader.get("/no/such/page")
    assert said.status_code == 404
    assert "does not exist" in text_of(said)


def test_the_cookie_is_for_nobody_else(served):
    visitor = Visitor(served)
    said = visitor.http.post("/login", data={"name": ADMIN, "password": served.password})
    cookie = said.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    assert len(visitor.http.cookies["cometmq_session"]) >= 43


@pytest.mark.parametrize(
    ("name", "password"),
    [
        (ADMIN, "wrong-password"),
        ("nobody", "wrong-password"),
        (ADMIN, ""),
        ("", ""),
        ("\x00", "\x00" * 300),
    ],
)
def test_a_wrong_password_says_nothing_more(served, name, password):
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        said = http.post("/login", data={"name": name, "password": password})
    assert said.status_code in (403, 429)
    assert "set-cookie" not in said.headers


def test_logins_that_fail_are_limited(served):
    with httpx.Client(base_url=served.url, trust_env=False, timeout=20) as http:
        tries = [
            http.post("/login", data={"name": "guessed", "password": f"guess-{number}"})
            for number in range(7)
        ]
    assert [each.status_code for each in tries] == [403] * 5 + [429] * 2
    assert "Too many wrong passwords. Try again in" in text_of(tries[-1])
    visitor = Visitor(served)
    visitor.log_in()
    audit = text_of(visitor.get("/audit"))
    line = "guessed 127.0.0.1 log in refused: the name or the password is wrong"
    assert audit.count(line) == 5
    assert "guess-0" not in audit


def test_a_header_that_names_another_address_is_not_believed(served):
    with httpx.Client(base_url=served.url, trust_env=False, timeout=20) as http:
        tries = [
            http.post(
                "/login",
                data={"name": "forged", "password": f"guess-{number}"},
                headers={
                    "X-Forwarded-For": f"192.0.2.{number}",
                    "Forwarded": f"for=192.0.2.{number}",
                },
            )
            for number in range(7)
        ]
    assert [each.status_code for each in tries] == [403] * 5 + [429] * 2
    assert "192.0.2." not in served.program.log.read_text()


@pytest.mark.parametrize(
    ("options", "is_believed"), [((), True), (("--proxy", "192.0.2.9"), False)]
)
def test_the_proxy_alone_says_from_where_a_browser_comes(
    nameserver, tmp_path, options, is_believed
):
    with (
        Served(tmp_path, nameserver, "--behind-proxy", *options) as served,
        httpx.Client(base_url=served.url, trust_env=False, timeout=20) as http,
    ):

        def login(address: str) -> int:
            return http.post(
                "/login",
                data={"name": "guessed", "password": "wrong"},
                headers={"X-Forwarded-For": f"10.9.9.9, {address}"},
            ).status_code

        assert [login("192.0.2.1") for _ in range(6)] == [403] * 5 + [429]
        assert login("192.0.2.2") == (403 if is_believed else 429)


def test_reports_of_one_address_leave_room_for_those_of_others(nameserver, tmp_path):
    """Only the first of an address are kept: the log has a line for each."""
    with (
        Served(tmp_path, nameserver) as served,
        httpx.Client(base_url=served.url, trust_env=False, timeout=20) as http,
    ):
        for number in range(30):
            assert http.post("/csp-report", content=b"flood %d" % number).status_code == 204
        assert 0 < served.program.log.read_text().count("security policy: flood") <= 10


def test_the_first_password_is_written_into_no_journal(nameserver, tmp_path):
    log = tmp_path / "dashboard.log"
    log.touch()
    state = log.stat()
    env = {"JOURNAL_STREAM": f"{state.st_dev}:{state.st_ino}"}
    served = Served(tmp_path, nameserver, env=env)
    with served:
        path = tmp_path / "data" / "first-password"
        wait_until(path.exists, seconds=20, what="the password")
        assert path.stat().st_mode & 0o777 == 0o600
        password = path.read_text().strip()
        Visitor(served).log_in("admin", password)
        said = log.read_text()
        assert password not in said
        assert "with the password in" in said


def test_a_stolen_cookie_is_worth_nothing_after_the_logout(served):
    visitor = Visitor(served).log_in(READER, READER_PASSWORD)
    stolen = visitor.http.cookies["cometmq_session"]
    thief = httpx.Client(
        base_url=served.url, cookies={"cometmq_session": stolen}, trust_env=False
    )
    assert thief.get("/topics").status_code == 200
    said = visitor.http.post("/logout", data={"csrf": visitor.csrf}, follow_redirects=True)
    assert "You are logged out" in text_of(said)
    assert thief.get("/topics").headers["location"].startswith("/login")
    assert visitor.http.get("/topics").status_code == 303
    thief.close()


def test_a_logout_of_another_site_is_refused(served):
    visitor = Visitor(served).log_in(READER, READER_PASSWORD)
    assert visitor.http.post("/logout", data={"csrf": "x"}).status_code == 403
    assert visitor.http.get("/topics").status_code == 200


def test_a_session_ends_with_its_user_and_with_his_password(served):
    def user(verb: str, *options: str, stdin: bytes = b"") -> str:
        folder = str(served.folder / "data")
        command = ("dashboard", "user", verb, *options, "--data", folder)
        done = run(*command, nameserver=None, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    user("create", "short", "--password-stdin", stdin=b"first-password\n")
    visitor = Visitor(served).log_in("short", "first-password")
    assert visitor.http.get("/").status_code == 200
    assert '"user":"short","role":"reader"' in user("list", "--json")
    password = user("set", "short", "--admin", "--password").strip()
    assert '"user":"short","role":"admin"' in user("list", "--json")
    assert visitor.http.get("/").status_code == 303
    visitor.log_in("short", password)
    user("delete", "short")
    assert visitor.http.get("/").status_code == 303


@pytest.mark.parametrize(
    ("after", "goes_to"),
    [
        ("/topic?name=orders", "/topic?name=orders"),
        ("//192.0.2.1/", "/"),
        ("/\\192.0.2.1/", "/"),
        ("https://192.0.2.1/", "/"),
        ("/x\r\nSet-Cookie: a=b", "/"),
        ("", "/"),
    ],
)
def test_a_login_leads_nowhere_else(served, after, goes_to):
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        fields = {"name": READER, "password": READER_PASSWORD, "next": after}
        said = http.post("/login", data=fields)
    assert said.headers["location"] == goes_to


def test_the_password_is_printed_once_and_kept_as_a_hash(served, nameserver):
    users = (served.folder / "data" / "users.json").read_text()
    assert served.password not in users
    assert re.search(r"scrypt\$14\$8\$1\$", users)
    assert (served.folder / "data" / "users.json").stat().st_mode & 0o777 == 0o600
    assert (served.folder / "data" / "audit.jsonl").stat().st_mode & 0o777 == 0o600
    assert served.program.log.read_text().count(served.password) == 1


def test_a_file_of_users_that_is_damaged_lets_nobody_in(nameserver, tmp_path):
    with Served(tmp_path, nameserver) as served:
        visitor = Visitor(served).log_in()
        (tmp_path / "data" / "users.json").write_text(
            '{"version": 1, "users": [{"name": "admin"'
        )
        assert visitor.http.get("/").status_code == 303
        said = visitor.http.post("/login", data={"name": ADMIN, "password": "whatever-it-is"})
        assert said.status_code == 500
        assert "users file cannot be read" in text_of(said)


def test_a_form_of_an_old_session_is_not_one_of_the_new(served):
    visitor = Visitor(served).log_in()
    old = visitor.csrf
    visitor.http.post("/logout", data={"csrf": old})
    visitor.log_in()
    assert visitor.csrf != old
    fields = {"csrf": old, "once": "old", "name": "never-made"}
    said = visitor.http.post("/groups/create", data=fields)
    assert said.status_code == 403
    assert "nothing was changed" in text_of(said)
    assert "never-made" not in text_of(visitor.get("/groups"))
    assert hidden(said)["csrf"] == visitor.csrf
