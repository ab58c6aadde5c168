"""The request and the answer of a page: `PageRequest`, `Page`."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import NamedTuple

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from cometmq.client import AsyncAdmin, AsyncInspector
from cometmq.dashboard.audit import Audit, AuditEntry
from cometmq.dashboard.cluster_clients import ClusterClient, ClusterClients
from cometmq.dashboard.login_attempts import LoginAttempts
from cometmq.dashboard.passwords import UserFile
from cometmq.dashboard.rendering import link as address_of
from cometmq.dashboard.rendering import render
from cometmq.dashboard.sessions import Session, Sessions
from cometmq.dashboard.settings import DashboardSettings
from cometmq.dashboard.watcher import Watcher
from cometmq.model.clock import Clock

_log = logging.getLogger(__name__)


class CspReport(NamedTuple):
    """A browser's report of something on a page that it did not run, and the browser's address."""

    address: str
    text: str


@dataclass(frozen=True, slots=True)
class AppContext:
    """The parts that all pages share; made once, by the server."""

    settings: DashboardSettings
    clock: Clock
    clients: ClusterClients
    watcher: Watcher
    sessions: Sessions
    users: UserFile
    attempts: LoginAttempts
    audit: Audit
    templates: Environment
    csp_reports: list[CspReport] = field(default_factory=list)

    def log_action(self, action: AuditEntry) -> None:
        """Write an action into the audit; a disk that is full stops nobody."""
        try:
            self.audit.write(action)
        except OSError as error:
            _log.error("the audit cannot be written: %s", error)


@dataclass(slots=True)
class PageRequest:
    """A request of somebody who is logged in.

    Attributes:
        http: as it came.
        context: what all pages share.
        session: who asks.
        cluster: clients of the cluster, with his rights.
        fields: of the address, or of the form.
        problem: why the form on this page was not done; empty: it is no such page.
        subject: what an action is about, for the audit.
    """

    http: Request
    context: AppContext
    session: Session
    cluster: ClusterClient
    fields: Mapping[str, str]
    problem: str = ""
    subject: str = ""
    status: int = 200

    @property
    def admin(self) -> AsyncAdmin:
        """Changes things."""
        return self.cluster.admin

    @property
    def inspector(self) -> AsyncInspector:
        """Looks at things."""
        return self.cluster.inspector

    @property
    def watcher(self) -> Watcher:
        """The watcher with the cluster's latest state."""
        return self.context.watcher

    def now_ms(self) -> int:
        """Ms since 1970."""
        return self.context.clock.now_ms()

    def page(self, template: str, title: str, **values: object) -> Response:
        """A page, or a part of one, of a template."""
        text = render(
            self.context.templates,
            template,
            {
                "title": title,
                "session": self.session,
                "given": self.fields,
                "problem": self.problem,
                "path": self.http.url.path,
                "now_ms": self.now_ms(),
                "form_number": lambda: token_urlsafe(12),
                "troubles": self.watcher.troubles(),
                "notes": self.session.take_notes() if not template.startswith("part_") else [],
                **values,
            },
        )
        return HTMLResponse(text.encode("utf-8", "replace"), self.status)

    def audit(self, action: str, subject: str, outcome: str) -> None:
        """Keep that somebody did something, and how it ended."""
        address = self.http.client.host if self.http.client else "?"
        self.context.log_action(
            AuditEntry(self.now_ms(), self.session.user, address, action, subject, outcome)
        )

    def go(self, path: str, note: str = "", /, **fields: object) -> Response:
        """Redirect to another page, which shows a note."""
        if note:
            self.session.note(note)
        return RedirectResponse(address_of(path, **fields), 303)


Show = Callable[[PageRequest], Awaitable[Response]]


class Page(NamedTuple):
    """A page.

    Attributes:
        path: its address.
        show: makes it.
        does: what it changes, in words for the audit; None: nothing, it is only looked at.
        form_on: the page on which its form stands, shown again when it is not done.
        is_part: a part of a page that renews itself.
    """

    path: str
    show: Show
    does: str | None = None
    form_on: Show | None = None
    is_part: bool = False
