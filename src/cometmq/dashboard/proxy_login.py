"""Login by a proxy in front of the dashboard, such as oauth2-proxy: it names the user, and maybe groups, in headers.

The headers are believed only if the connection comes from an address of the proxy (`--proxy`). Every request must have
them; there is no cookie.
"""

import logging
import re
from collections.abc import Collection, Iterable
from ipaddress import ip_address
from typing import Any, NamedTuple, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from cometmq.dashboard.inputs import FormRefused
from cometmq.dashboard.passwords import Role, UserFile
from cometmq.dashboard.settings import DashboardSettings
from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes

_log = logging.getLogger(__name__)

GROUPS_BYTES_MAX = 8192
_NAME = re.compile(rb"[\w.@+:/|-]{1,128}", re.ASCII)
_PEER = "cometmq.peer"


class ProxyUser(NamedTuple):
    """A user whom the proxy has logged in, with the role in the dashboard."""

    name: str
    role: Role


def behind_proxy(app: ASGIApp, proxies: Collection[str]) -> ASGIApp:
    """Wrap an application so that X-Forwarded-For of these proxies, and of nobody else, says where a browser is.

    The address of the connection, which uvicorn then replaces, is kept for `ProxyLogin`.
    """
    addressed = cast("ASGIApp", ProxyHeadersMiddleware(cast(Any, app), list(proxies)))

    async def keep(scope: Scope, receive: Receive, send: Send) -> None:
        scope[_PEER] = scope["client"][0] if scope.get("client") else ""
        await addressed(scope, receive, send)

    return keep


class ProxyLogin:
    """Reads the headers in which a proxy names users, as the settings say; without such settings there is no user."""

    def __init__(self, settings: DashboardSettings, users: UserFile) -> None:
        self._users = users
        self._user_header = settings.user_header.lower().encode()
        self._groups_header = settings.groups_header.lower().encode()
        self._admin_groups = frozenset(each.encode() for each in settings.admin_groups)
        self._proxies = frozenset(map(ip_address, settings.proxies))

    def user(self, scope: Scope) -> ProxyUser | None:
        """Return the user that the proxy names; None without a header, or if the connection is not from a proxy.

        Raises FormRefused if the header's value cannot be a name, a header occurs twice, or the users file is unreadable.
        """
        if not self._user_header or not _is_among(self._proxies, scope[_PEER]):
            return None
        name = _only(scope["headers"], self._user_header)
        if not name:
            return None
        if not _NAME.fullmatch(name):
            raise FormRefused(
                f"The proxy sent {in_quotes(name.decode('latin-1'), 80)} as the user's name; it must have 1 to 128 "
                "ASCII letters, digits and . _ @ + : / | -"
            )
        return ProxyUser(name.decode(), self._role(name.decode(), scope["headers"]))

    def _role(self, name: str, headers: Iterable[tuple[bytes, bytes]]) -> Role:
        if not self._groups_header:
            try:
                known = self._users.users().get(name)
            except SettingsError as error:
                _log.error("The roles of users are not known: %s", error)
                raise FormRefused(
                    "The users file cannot be read; the log of the dashboard has the reason."
                ) from None
            return Role.READER if known is None else known.role
        groups = _only(headers, self._groups_header)
        if len(groups) > GROUPS_BYTES_MAX:
            raise FormRefused(
                f"The proxy sent {len(groups)} bytes as the user's groups; at most {GROUPS_BYTES_MAX} are allowed."
            )
        names = {each.strip() for each in groups.split(b",")}
        return Role.READER if names.isdisjoint(self._admin_groups) else Role.ADMIN


def _is_among(proxies: Collection[object], peer: str) -> bool:
    try:
        return ip_address(peer) in proxies
    except ValueError:
        return False


def _only(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    """Return the value of a header, empty if it is missing. Raises FormRefused if it occurs more than once."""
    values = [value for key, value in headers if key == name]
    if len(values) > 1:
        raise FormRefused(
            f"The request has the header {name.decode()} {len(values)} times; the proxy must remove the one that a browser "
            "sends."
        )
    return values[0] if values else b""
