"""What no page should see does not reach one: other names, other sites, huge bodies; and the headers of every answer."""

import socket
from contextlib import suppress

import httpx
import pytest

from cometmq.dashboard.pages import PAGES
from tests.dashboard.web import text_of

ACTIONS = [page for page in PAGES if page.does]


@pytest.mark.parametrize("page", ACTIONS, ids=lambda page: page.path)
def test_a_form_without_its_token_does_nothing(admin, page):
    said = admin.http.post(page.path, data={"name": "x", "sure": "x", "once": "1"})
    assert said.status_code == 403
    assert "belongs to another session" in text_of(said)


@pytest.mark.parametrize("page", ACTIONS, ids=lambda page: page.path)
def test_a_reader_changes_nothing(reader, page):
    said = reader.post(page.path, name="orders", sure="orders", topic="orders")
    assert said.status_code == 403
    assert "User reader may only read; nothing was changed" in text_of(said)


def test_the_audit_is_shown_to_admins_alone(admin, reader):
    assert "log in" in text_of(admin.get("/audit"))
    said = reader.get("/audit")
    assert said.status_code == 403
    assert "The audit is shown to admins" in text_of(said)
    assert "127.0.0.1" not in text_of(said)
    assert [visitor.get("/").text.count('href="/audit"') for visitor in (admin, reader)] == [
        1,
        0,
    ]


@pytest.mark.parametrize("page", ACTIONS, ids=lambda page: page.path)
def test_an_action_is_no_page(admin, page):
    assert admin.http.get(page.path).status_code in (404, 405)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://192.0.2.1"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_form_of_another_site_is_refused(admin, headers):
    fields = {"csrf": admin.csrf, "once": str(headers), "name": "of-another-site"}
    said = admin.http.post("/groups/create", data=fields, headers=headers)
    assert said.status_code == 403
    assert "another site" in said.text
    assert "of-another-site" not in text_of(admin.get("/groups"))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8082", "", "127.0.0.1.evil.example", "[::2]:80"]
)
def test_another_name_is_not_answered(served, admin, host):
    said = admin.http.get("/", headers={"host": host})
    assert said.status_code in (400, 421)
    if said.status_code == 421:
        assert "--host-name" in said.text
    assert "CometMQ" not in said.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "[::1]:5", "127.0.0.1"])
def test_names_of_this_machine_are(served, host):
    said = httpx.get(f"{served.url}/login", headers={"host": host}, trust_env=False)
    assert said.status_code == 200


def test_every_answer_has_the_headers(served, admin, stranger):
    for visitor, path in (
        (admin, "/"),
        (stranger, "/login"),
        (stranger, "/"),
        (admin, "/no/such"),
        (stranger, "/static/dashboard.css"),
        (admin, "/topics?page=x"),
    ):
        headers = visitor.http.get(path).headers
        assert headers["content-security-policy"].startswith(
            "default-src 'self'; script-src 'self'"
        )
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        is_file = path.startswith("/static")
        assert headers["cache-control"] == (
            "public, max-age=31536000, immutable" if is_file else "no-store"
        )


def test_pages_have_no_script_and_no_style_of_their_own(admin):
    for page in PAGES:
        if page.does is None and not page.is_part:
            text = admin.get(page.path).text
            assert "<script>" not in text
            assert "<style" not in text
            assert " style=" not in text
            assert " onclick" not in text


def test_a_body_of_more_than_a_megabyte_is_not_read(admin):
    said = admin.http.post("/topic/send", content=b"x" * 1_000_001)
    assert said.status_code == 413

    def endless():
        for _ in range(40):
            yield b"y" * 50_000

    try:
        said = admin.http.post("/topic/send", content=endless())
        assert said.status_code == 413
    except httpx.TransportError:
        pass  # It hung up before all was written.
    assert admin.http.get("/").status_code == 200


def test_a_body_of_another_kind_is_no_form(admin):
    said = admin.http.post("/groups/create", json={"csrf": admin.csrf, "name": "of-json"})
    assert said.status_code == 403
    many = "&".join(f"f{number}=1" for number in range(300))
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert admin.http.post("/groups/create", content=many, headers=kind).status_code == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_refused(admin, method):
    assert admin.http.request(method, "/topics").status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2f..%2fpasswords.py",
        "/static//etc/passwd",
    ],
)
def test_no_other_file_is_served(served, path):
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
        raw.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        said = b"".join(iter(lambda: raw.recv(65536), b""))
    assert said.split(b" ", 2)[1] in (b"303", b"404")
    assert b"root:" not in said
    assert b"import" not in said


def test_garbage_ends_its_own_connection_only(served, admin):
    for garbage in (
        b"\x00" * 100,
        b"GET / HTTP/9.9\r\n\r\n",
        b"A" * 200_000,
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
            # It may have ended the connection by any of these calls: reset, broken pipe, not connected.
            with suppress(OSError):
                raw.sendall(garbage)
                raw.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while raw.recv(65536):
                    pass
    assert admin.http.get("/").status_code == 200
