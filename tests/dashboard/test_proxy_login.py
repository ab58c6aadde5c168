"""Login by a proxy in front: its header is believed from its own address alone, once, and as a name; roles by groups or by the users file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from cometmq.dashboard.settings import DashboardSettings
from cometmq.model.errors import SettingsError
from tests.dashboard.web import Served, add_user, hidden, text_of

USER, GROUPS = "X-Forwarded-User", "X-Forwarded-Groups"
BEHIND = ("--behind-proxy", "--proxy", "127.0.0.1", "--user-header", USER)
# All of it is this machine; the proxy connects from the first.
PROXY, OTHER = "127.0.0.1", "127.0.0.2"


def browser(served: Served, address: str = PROXY) -> httpx.Client:
    """A client that connects from an address and keeps cookies."""
    transport = httpx.HTTPTransport(local_address=address)
    return httpx.Client(base_url=served.url, transport=transport, trust_env=False, timeout=20)


@pytest.fixture(scope="module")
def by_file(nameserver: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard where the users file says what a user of the proxy may do."""
    with Served(tmp_path_factory.mktemp("by-file"), nameserver, *BEHIND) as made:
        add_user(made.folder / "data", "alice@example.org", "never-used-here", is_admin=True)
        yield made


@pytest.fixture(scope="module")
def by_groups(nameserver: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard where two groups of the proxy are admins."""
    options = ("--groups-header", GROUPS, "--admin-group", "mq-admins", "--admin-group", "/ops")
    with Served(tmp_path_factory.mktemp("by-groups"), nameserver, *BEHIND, *options) as made:
        yield made


def create_group(http: httpx.Client, name: str, headers: dict[str, str]) -> httpx.Response:
    """Send the form of a new group, as the user whom the headers name."""
    carried = hidden(http.get("/topic?name=orders", headers=headers))
    fields = {"csrf": carried.get("csrf", ""), "once": name, "name": name}
    return http.post("/groups/create", data=fields, headers=headers)


def test_the_user_of_the_proxy_has_the_role_of_the_users_file(by_file):
    alice = {USER: "alice@example.org", "X-Forwarded-For": "192.0.2.7"}
    with closing(browser(by_file)) as http:
        page = http.get("/", headers=alice)
        assert page.status_code == 200
        assert "set-cookie" not in page.headers
        assert "alice@example.org admin · by the proxy" in text_of(page)
        assert "Log out" not in text_of(page)
        assert http.get("/login", headers=alice).headers["location"] == "/"
        assert create_group(http, "by-a-proxy", alice).status_code == 303
        audit = text_of(http.get("/audit", headers=alice))
        assert "alice@example.org 192.0.2.7 create group by-a-proxy done" in audit
        assert audit.count("alice@example.org 192.0.2.7 log in done") == 1
        stranger = http.get("/groups", headers={USER: "bob"})
        assert "bob read only · by the proxy" in text_of(stranger)
        assert http.get("/audit", headers={USER: "bob"}).status_code == 403


def test_groups_of_the_proxy_are_admins_as_long_as_the_proxy_says_so(by_groups):
    with closing(browser(by_groups)) as http:
        for groups in ("mq-admins", "readers, /ops ,others"):
            said = http.get("/", headers={USER: "carol", GROUPS: groups})
            assert "carol admin" in text_of(said)
        for more in ({}, {GROUPS: ""}, {GROUPS: "mq-admins-of-others,ops"}):
            said = http.get("/", headers={USER: "carol", **more})
            assert "carol read only" in text_of(said)
        # The users file says nothing here.
        assert "admin read only" in text_of(http.get("/", headers={USER: "admin"}))
        was_admin = {USER: "carol", GROUPS: "mq-admins"}
        carried = hidden(http.get("/groups/new", headers=was_admin))
        fields = {**carried, "name": "too-late"}
        for headers, sentence in (
            ({USER: "carol"}, "belongs to another session"),
            ({USER: "dave", GROUPS: "mq-admins"}, "belongs to another session"),
        ):
            said = http.post("/groups/create", data=fields, headers=headers)
            assert said.status_code == 403
            assert sentence in text_of(said)
        said = create_group(http, "too-late", {USER: "carol"})
        assert said.status_code == 403
        assert "too-late" not in text_of(http.get("/groups", headers=was_admin))


@pytest.mark.parametrize(
    "more",
    [{}, {"X-Forwarded-For": PROXY}, {"Forwarded": f"for={PROXY}"}, {"X-Real-IP": PROXY}],
)
def test_another_address_logs_nobody_in(by_file, more):
    with closing(browser(by_file, OTHER)) as http:
        for path in ("/", "/audit", "/groups/new"):
            said = http.get(path, headers={USER: "alice@example.org", **more})
            assert said.status_code == 303
            assert said.headers["location"].startswith("/login")
        part = http.get("/part/overview", headers={USER: "alice@example.org", **more})
        assert part.status_code == 401


def test_a_session_of_the_proxy_ends_with_its_header(by_file):
    with closing(browser(by_file)) as http:
        assert http.get("/", headers={USER: "alice@example.org"}).status_code == 200
        for headers in ({}, {USER: ""}, {USER.replace("-", "_"): "alice@example.org"}):
            assert http.get("/", headers=headers).status_code == 303
        assert "cometmq_session" not in http.cookies


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ([(USER, "alice@example.org"), (USER, "bob")], "2 times"),
        ([(USER, "alice@example.org"), (USER.lower(), "alice@example.org")], "2 times"),
        ([(USER, "alice@example.org, bob")], "it must have 1 to 128 ASCII letters"),
        ([(USER, "alice bob")], "it must have 1 to 128"),
        ([(USER, b"al\xc3\xafce")], "it must have 1 to 128"),
        ([(USER, b"\xd0\xb0lice@example.org")], "it must have 1 to 128"),
        ([(USER, b"alice\x7f")], "it must have 1 to 128"),
        ([(USER, "<script>document.title='owned'</script>")], "it must have 1 to 128"),
        ([(USER, "a" * 129)], "it must have 1 to 128"),
        ([(USER, "a" * 10_000)], "it must have 1 to 128"),
        ([(USER, "carol"), (GROUPS, "x"), (GROUPS, "mq-admins")], "2 times"),
        ([(USER, "carol"), (GROUPS, "g," * 5_000 + "mq-admins")], "at most 8192 are allowed"),
    ],
)
def test_what_cannot_be_a_user_is_refused_and_shown_as_text(by_groups, headers, sentence):
    with closing(browser(by_groups)) as http:
        for path in ("/", "/login", "/no/such"):
            said = http.get(path, headers=headers)
            assert said.status_code == 403
            assert sentence in text_of(said)
            assert "<script>document" not in said.text
        assert (
            http.post("/groups/create", data={"name": "x"}, headers=headers).status_code == 403
        )
        assert http.get("/", headers=[(USER, "a" * 128)]).status_code == 200
    assert "Traceback" not in by_groups.program.log.read_text()


def test_without_the_option_the_header_is_nothing(served):
    with closing(browser(served)) as http:
        said = http.get("/", headers={USER: "admin", GROUPS: "mq-admins"})
        assert said.status_code == 303


def test_a_users_file_that_cannot_be_read_lets_nobody_in(nameserver, tmp_path):
    with Served(tmp_path, nameserver, *BEHIND) as served, closing(browser(served)) as http:
        (tmp_path / "data" / "users.json").write_text("{")
        said = http.get("/", headers={USER: "alice"})
        assert said.status_code == 403
        assert "The users file cannot be read" in text_of(said)
        assert "users.json is not a valid users file" in served.program.log.read_text()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"user_header": USER}, "--user-header needs --behind-proxy and --proxy"),
        ({"user_header": USER, "is_behind_proxy": True}, "--user-header needs --behind-proxy and --proxy"),
        ({"user_header": USER, "proxies": (PROXY,)}, "--user-header needs --behind-proxy and --proxy"),
        ({"user_header": "X User"}, "'X User' is not the name of a header"),
        ({"user_header": "X_User"}, "'X_User' is not the name of a header"),
        ({"groups_header": GROUPS}, "--groups-header and --admin-group belong together"),
        ({"admin_groups": ("x",)}, "--groups-header and --admin-group belong together"),
        ({"groups_header": GROUPS, "admin_groups": ("x",)}, "--groups-header needs --user-header"),
    ],
)  # fmt: skip
def test_settings_that_are_not_safe_are_refused(
    tmp_path: Path, settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(SettingsError, match=sentence):
        DashboardSettings(data_dir=tmp_path, **settings)  # type: ignore[arg-type]
