"""A visitor of the dashboard over plain HTTP, and the dashboard as a program."""

import re
import ssl
import sys
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from tests.support.processes import Program, free_port, wait_until

ADMIN = "admin"
READER, READER_PASSWORD = "reader", "reads-and-reads"
_HIDDEN = re.compile(r'name="(csrf|once)" value="([^"]*)"')
_TAGS = re.compile(r"<(style|script).*?</\1>|<[^>]*>", re.DOTALL)


class Served:
    """A dashboard that runs, as its own process; in the end its visitors leave, too.

    Args:
        folder: where its data and its log lie.
        nameservers: of the cluster.
        options: further ones of the command.
        env: what its environment says besides.
        scheme: https, where the options name a certificate.
    """

    def __init__(
        self,
        folder: Path,
        nameservers: str,
        *options: str,
        env: Mapping[str, str] | None = None,
        scheme: str = "http",
    ) -> None:
        self.folder = folder
        self.scheme = scheme
        self.port = free_port()
        self.visitors: list[Visitor] = []
        self.program = Program(
            [
                sys.executable,
                *("-m", "cometmq.cli.__main__", "dashboard", "-n", nameservers),
                *("--port", str(self.port), "--data", str(folder / "data")),
                *("--sample-seconds", "0.5", *options),
            ],
            log=folder / "dashboard.log",
            port=self.port,
            env=env,
        )

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def password(self) -> str:
        """Of admin, as the first start printed it."""

        def look() -> re.Match[str] | None:  # It is printed a moment after the port is open.
            said = self.program.log.read_text(errors="replace")
            return re.search(r"first login\s+admin\s+(\S+)", said)

        found = wait_until(look, seconds=60, what="the first password")
        assert found is not None
        return found[1]

    def __enter__(self) -> "Served":
        self.program.start()
        add_user(self.folder / "data", READER, READER_PASSWORD)
        return self

    def __exit__(self, *_: object) -> None:
        for visitor in self.visitors:
            visitor.http.close()
        self.program.stop()


def add_user(data: Path, name: str, password: str, *, is_admin: bool = False) -> None:
    """Make a user, as `cometmq dashboard user create` does."""
    from cometmq.dashboard import Role, UserFile

    UserFile(data).create(name, Role.ADMIN if is_admin else Role.READER, password)


class Visitor:
    """A browser without a screen: cookies, forms with what they carry, no redirects unless asked.

    Args:
        served: the dashboard.
        trust: whose certificates are good; None: those of the system.
    """

    def __init__(self, served: Served, trust: ssl.SSLContext | None = None) -> None:
        self.served = served
        self.http = httpx.Client(
            base_url=served.url, timeout=20, trust_env=False, verify=trust or True
        )
        self.csrf = ""
        served.visitors.append(self)

    def log_in(self, name: str = ADMIN, password: str | None = None) -> "Visitor":
        secret = self.served.password if password is None else password
        said = self.http.post("/login", data={"name": name, "password": secret})
        assert said.status_code == 303, text_of(said)
        self.csrf = hidden(self.http.get("/groups/new" if name == ADMIN else "/"))["csrf"]
        return self

    def get(self, path: str, **fields: Any) -> httpx.Response:
        return self.http.get(path, params=fields or None, follow_redirects=True)

    def post(self, path: str, follow: bool = True, **fields: Any) -> httpx.Response:
        """Send a form of this session, with a number of its own."""
        carried = {"csrf": self.csrf, "once": f"{id(self)}-{self._number()}"}
        given = {name.rstrip("_"): value for name, value in fields.items()}
        return self.http.post(path, data={**carried, **given}, follow_redirects=follow)

    def _number(self) -> int:
        self.sent = getattr(self, "sent", 0) + 1
        return self.sent


def hidden(page: httpx.Response) -> Mapping[str, str]:
    """What the forms of a page carry."""
    return {name: unescape(value) for name, value in _HIDDEN.findall(page.text)}


def text_of(page: httpx.Response) -> str:
    """What a page says, without its elements."""
    return " ".join(unescape(_TAGS.sub(" ", page.text)).split())


def wait_for(
    visitor: Visitor, path: str, what: str, *, seconds: float = 20, **fields: Any
) -> str:
    """The text of a page once it says something.

    Raises:
        TimeoutError: it did not; with what it said at last.
    """
    text = ""

    def look() -> str:
        nonlocal text
        text = text_of(visitor.get(path, **fields))
        return text if what in text else ""

    try:
        return wait_until(look, seconds=seconds, what=f"{path} says {what!r}")
    except TimeoutError as late:
        raise TimeoutError(f"{late}; it says {text!r}") from None
