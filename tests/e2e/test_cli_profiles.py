"""`cometmq profile` as a process: clusters by name, and secrets that stay with their owner."""

from pathlib import Path

import orjson
import pytest

from cometmq.embedded import Embedded
from tests.support.command_line import run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of configuration files, which is empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "cometmq"


def said(
    *arguments: str, status: int = 0, stdin: bytes = b"", nameserver: str | None = None
) -> str:
    """What `cometmq` prints on stdout, or as its error."""
    done = run(*arguments, nameserver=nameserver, stdin=stdin)
    assert done.returncode == status, done.stderr.decode()
    return (done.stderr if status else done.stdout).decode()


def test_a_profile_is_used_by_name_or_for_all_commands(cluster: Embedded) -> None:
    said("profile", "create", "here", "-n", cluster.nameserver)
    said("profile", "create", "away", "-n", "127.0.0.1:1")
    assert "127.0.0.1:1" in said("--profile", "away", "topic", "list", status=3)
    assert said("--profile", "here", "topic", "list") == ""
    assert said("--profile", "here", "topic", "list", nameserver="127.0.0.1:1") == ""
    said("profile", "use", "here")
    assert said("topic", "list") == ""
    # What the environment or the command line names comes before the profile of `use`.
    assert "127.0.0.1:1" in said("topic", "list", nameserver="127.0.0.1:1", status=3)
    assert "127.0.0.1:1" in said("topic", "list", "-n", "127.0.0.1:1", status=3)
    listed = orjson.loads(said("profile", "list", "--json"))
    assert [(each["profile"], each["used"]) for each in listed] == [
        ("away", False),
        ("here", True),
    ]
    said("profile", "use")
    assert not any(each["used"] for each in orjson.loads(said("profile", "list", "--json")))
    said("profile", "use", "here")
    said("profile", "delete", "here", "--yes")
    assert [each["profile"] for each in orjson.loads(said("profile", "list", "--json"))] == [
        "away"
    ]
    assert "there is no profile 'here'; there is away" in said(
        "--profile", "here", "topic", "list", status=2
    )


def test_a_secret_is_in_a_file_of_its_owner_alone_and_nowhere_shown(home: Path) -> None:
    arguments = ("--tls", "--ca-file", "ca.pem", "--access-key", "admin")
    said("profile", "create", "prod", "-n", "ns:9876", *arguments, stdin=b"hidden-8\n")
    path = home / "profiles" / "prod.yaml"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "hidden-8" in path.read_text()
    for command in ("list", "show"):
        name = ("prod",) if command == "show" else ()
        for printed in (
            said("profile", command, *name),
            said("profile", command, *name, "--json"),
        ):
            assert "admin" in printed
            assert "hidden-8" not in printed
    values = orjson.loads(said("profile", "show", "prod", "--json"))["values"]
    assert values == {
        "caFile": str(Path.cwd() / "ca.pem"),
        "tls": "true",
        "nameserver": "ns:9876",
        "accessKey": "admin",
    }
    said("profile", "set", "prod", "--no-tls", "--nameserver", "other:9876")
    assert orjson.loads(said("profile", "show", "prod", "--json"))["values"] == {
        **values,
        "tls": "false",
        "nameserver": "other:9876",
    }
    assert "hidden-8" in path.read_text()
    assert [each.name for each in path.parent.iterdir()] == ["prod.yaml"]
    path.chmod(0o644)
    for refused in (("--profile", "prod", "topic", "list"), ("profile", "show", "prod")):
        assert "other users may read it; run chmod 600" in said(*refused, status=2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("create", "a/b", "-n", "ns:1"), "'a/b' cannot name a profile"),
        (("create", ".hidden", "-n", "ns:1"), "cannot name a profile"),
        (("create", "empty"), "a profile needs a value"),
        (("create", "one", "-n", "ns:1", "--ca-file", "ca.pem"), "files of TLS need --tls"),
        (
            ("create", "there", "-n", "ns:1"),
            "there is a profile 'there'; cometmq profile set there changes it",
        ),
        (("create", "user", "--access-key", "admin"), "no password was given"),
        (("set", "there"), "a profile needs a value"),
        (("set", "there", "--ca-file", "ca.pem"), "files of TLS need --tls"),
        (("set", "none", "-n", "ns:1"), "there is no profile 'none'"),
        (("show", "none"), "there is no profile 'none'; there is broken, there"),
        (("use", "none"), "there is no profile 'none'"),
        (("delete", "none", "--yes"), "there is no profile 'none'"),
        (("show", "broken"), "'nameservers' is no key of a profile"),
    ],
)
def test_what_is_wrong_is_refused_in_one_line(
    home: Path, arguments: tuple[str, ...], says: str
) -> None:
    said("profile", "create", "there", "-n", "ns:1")
    (home / "profiles" / "broken.yaml").write_text("nameservers: ns:1\n")
    assert says in " ".join(said("profile", *arguments, status=2).replace("│", " ").split())
    assert said("profile", "show", "there").split() == ["name", "value", "nameserver", "ns:1"]


def test_servers_do_not_follow_a_profile(home: Path) -> None:
    said("profile", "create", "prod", "-n", "ns:9876")
    (home / "profile").write_text("gone\n")
    assert "there is no profile 'gone'" in said("topic", "list", status=2)
    assert "broker.conf" in said("config", "check", str(home / "broker.conf"), status=2)
