"""What a bad peer wrote is shown and never run: in bodies, keys, tags, properties, names."""

import httpx
import pytest

from tests.dashboard.web import Served, Visitor, text_of
from tests.dashboard.world import BIG, BODIES, HOSTILE, RIGHT_TO_LEFT, SCRIPT, place_of


def is_quiet(said: httpx.Response) -> bool:
    """Whether nothing of it steers the page: no element of ours comes from a peer, no sign that cannot be seen is left."""
    text = said.text.replace("</script>", "")
    scripts = text.count("<script")
    return (
        scripts == text.count('<script src="/static/')
        and "<img src=http" not in text
        and "\u202e" not in text
        and "\x00" not in text
    )


@pytest.mark.parametrize("key", BODIES)
@pytest.mark.parametrize("kind", ["", "text", "json", "hex"])
def test_a_hostile_message_is_shown(admin, nameserver, key, kind):
    place = place_of(nameserver, key)
    said = admin.get("/message", **place, **({"as": kind} if kind else {}))
    assert said.status_code == 200
    assert is_quiet(said)
    assert SCRIPT in text_of_escaped(said)
    assert "U+202E" in said.text
    assert len(said.content) < 1_500_000


def text_of_escaped(said: httpx.Response) -> str:
    from html import unescape

    return unescape(said.text)


@pytest.mark.parametrize(
    "path",
    [f"/messages?by=time&topic={HOSTILE}", f"/messages?by=key&topic={HOSTILE}&key=script"],
)
def test_lists_show_them_too(admin, path):
    said = admin.get(path)
    assert said.status_code == 200
    assert is_quiet(said)
    assert "U+202E" in said.text
    assert len(said.content) < 100_000


def test_a_tail_shows_them_too(admin):
    at = ",".join(f"broker-a:{queue}:0" for queue in range(4))
    said = admin.get("/part/tail", topic=HOSTILE, at=at)
    assert said.text.count("<li>") == len(BODIES)
    assert is_quiet(said)


@pytest.mark.parametrize("key", ["script", "big", "no-utf8"])
def test_all_of_a_body_comes_as_a_file_and_never_as_a_page(admin, nameserver, key):
    place = place_of(nameserver, key)
    said = admin.get("/message/body", **place)
    assert said.content == BODIES[key]
    assert said.headers["content-type"] == "application/octet-stream"
    assert said.headers["content-disposition"].startswith("attachment; ")
    assert said.headers["x-content-type-options"] == "nosniff"


def test_of_a_long_body_the_beginning_is_shown(admin, nameserver):
    place = place_of(nameserver, "big")
    text = text_of(admin.get("/message", **place))
    assert "Only the beginning of the body is shown" in text
    assert f"{BIG / 1048576:.1f} MiB" in text


@pytest.mark.parametrize(
    "path",
    [
        "/topics?find={0}",
        "/topic?name={0}",
        "/group?name={0}",
        "/groups?find={0}",
        "/broker?name={0}",
        "/broker?name=broker-a&id=0&find={0}",
        "/messages?by=time&topic={0}",
        "/messages?by=key&topic=hostile&key={0}",
        "/messages?by=id&topic=hostile&id={0}",
        "/messages?by={0}",
        "/messages?by=time&topic=hostile&from={0}",
        "/message?topic=hostile&broker={0}",
        "/group/member?name={0}&client={0}",
        "/tail?topic={0}",
        "/login?next={0}",
    ],
)
@pytest.mark.parametrize(
    "text", [SCRIPT, RIGHT_TO_LEFT, '"><img src=http://192.0.2.1>', "a\x00b", "\udcff"]
)
def test_what_an_address_says_is_shown_as_it_is_written(admin, path, text):
    from urllib.parse import quote

    said = admin.http.get(path.format(quote(text, errors="surrogateescape")))
    assert said.status_code in (200, 303, 400, 404, 502)
    assert said.text.replace("</script>", "").count("<script") == said.text.count(
        '<script src="/static/'
    )
    assert "<img src=http" not in said.text
    assert "\u202e" not in said.text
    assert "\x00" not in said.text
    assert "Traceback" not in said.text


@pytest.mark.parametrize(
    ("path", "field", "more"),
    [
        ("/topics/create", "name", {"write": "1", "read": "1"}),
        ("/groups/create", "name", {}),
        ("/topic/send", "body", {"name": HOSTILE, "properties": "no-sign\u202e"}),
    ],
)
def test_what_a_form_holds_stands_in_it_again_and_what_cannot_be_seen_is_told(
    admin, path, field, more
):
    said = admin.post(path, **{**more, field: f"a{RIGHT_TO_LEFT}\x00b"})
    assert said.status_code == 400
    assert is_quiet(said)
    assert f"a{RIGHT_TO_LEFT}" in text_of_escaped(said)
    assert field == "body" or "The value has invisible characters: a" in text_of(said)
    assert field == "body" or "U+202E" in said.text


def test_a_hostile_name_at_the_login_is_shown_and_audited(nameserver, tmp_path):
    with Served(tmp_path, nameserver) as served:
        visitor = Visitor(served)
        said = visitor.http.post(
            "/login", data={"name": SCRIPT + RIGHT_TO_LEFT, "password": "x"}
        )
        assert "<script>document" not in said.text
        visitor.log_in()
        said = visitor.post("/groups/create", name=SCRIPT)
        assert said.status_code in (400, 502)
        assert is_quiet(visitor.get("/audit"))
        assert SCRIPT in text_of_escaped(visitor.get("/audit"))
