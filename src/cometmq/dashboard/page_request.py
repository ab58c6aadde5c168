"""`PageRequest`, the request of a page, `AppContext`, which pages share, and `Page`, an entry in the table of pages."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from secrets import token_urlsafe
from typing import NamedTuple

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from cometmq import AsyncAdmin
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
from cometmq.model.text import cut
from cometmq.process.audit_log import WHAT_MAX, note

_log = logging.getLogger(__name__)


class CspReport(NamedTuple):
    """A report, usually that a page element violated the policy (CSP), as text; and its sender's address, or "?"."""

    address: str
    text: str


@dataclass(frozen=True, slots=True)
class AppContext:
    """The objects that all pages of a cluster share, such as settings, clients and sessions.

    Attributes:
        cluster: Name of the cluster; empty if the dashboard shows only one.
    """

    cluster: str
    settings: DashboardSettings
    clock: Clock
    clients: ClusterClients
    watcher: Watcher
    sessions: Sessions
    users: UserFile
    attempts: LoginAttempts
    audit: Audit
    templates: Environment
    csp_reports: list[CspReport]

    def link(self, path: str, **fields: object) -> str:
        """Return the address of a page of this cluster, with the query fields that are not empty."""
        return address_of(f"/cluster/{self.cluster}{path}" if self.cluster else path, **fields)

    def render(self, template: str, values: Mapping[str, object]) -> str:
        """Render a template with these values and with what all pages of the cluster have in common."""
        names = [each.name for each in self.settings.clusters]
        common = {"link": self.link, "cluster": self.cluster, "clusters": names}
        return render(self.templates, template, {**common, **values})

    def log_action(self, action: AuditEntry) -> None:
        """Write an action to the audit log and the audit file; if the file cannot be written, only log an error."""
        if self.cluster:
            action = action._replace(subject=f"{self.cluster}: {action.subject}")
        outcome, reason = "done", ""
        if action.outcome != "done":
            outcome, reason = "failed", cut(action.outcome, WHAT_MAX)
        if reason.startswith("refused: "):
            outcome, reason = "refused", reason.removeprefix("refused: ")
        note(
            outcome, f"'{action.action}'", user=action.user, address=action.address,
            what=cut(action.subject, WHAT_MAX), reason=reason,
        )  # fmt: skip
        try:
            self.audit.write(action)
        except OSError as error:
            _log.error("The audit log cannot be written: %s", error)


@dataclass(slots=True)
class PageRequest:
    """A request to the dashboard by a user who is logged in.

    Attributes:
        http: The HTTP request.
        context: The objects that all pages share.
        session: The user's session.
        cluster: Clients of the cluster that sign with the user's credentials; for own users, with the dashboard's.
        fields: Fields of the address or of the submitted form.
        problem: Error that the page shows, such as that of the form that was just submitted; empty if there is none.
        subject: What an action concerns, such as a topic's name, for the audit.
        status: HTTP status of the page.
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
        """Client that administers the cluster."""
        return self.cluster.admin

    @property
    def watcher(self) -> Watcher:
        """The watcher, which has the results of the latest polls of the cluster."""
        return self.context.watcher

    def now_ms(self) -> int:
        """Return the time, ms since 1970."""
        return self.context.clock.now_ms()

    def page(self, template: str, title: str, **values: object) -> Response:
        """Render a template as an HTML response: a page, which shows and clears the session's notes, or part of one."""
        text = self.context.render(
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
        """Write an action of this user and its outcome to the audit; if that fails, only log an error."""
        address = self.http.client.host if self.http.client else "?"
        self.context.log_action(
            AuditEntry(self.now_ms(), self.session.user, address, action, subject, outcome)
        )

    def go(self, path: str, note: str = "", /, **fields: object) -> Response:
        """Return a redirect to a page of the dashboard; the session's next full page shows `note` unless it is empty."""
        if note:
            self.session.note(note)
        return RedirectResponse(self.context.link(path, **fields), 303)


Show = Callable[[PageRequest], Awaitable[Response]]


class Page(NamedTuple):
    """An entry in the dashboard's table of pages.

    Attributes:
        path: Path of its address.
        show: Handles a request and returns the response.
        does: The change that its form makes, in words for the audit; None for a page that only shows something.
        form_on: Shows the page with the form again after a CometError of `show`; None: an error page is shown instead.
        is_part: Whether it is only a part of a page, requested by the part's automatic refreshes.
    """

    path: str
    show: Show
    does: str | None = None
    form_on: Show | None = None
    is_part: bool = False
