"""The ASGI application of the dashboard: login, logout, pages for users with a session, and forms for admins."""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from cometmq.dashboard.audit import AuditEntry
from cometmq.dashboard.escaping import span
from cometmq.dashboard.inputs import FormRefused, PageMissing, WrongInput
from cometmq.dashboard.login import Authenticator
from cometmq.dashboard.middleware import ALIVE_PATH, SecurityMiddleware
from cometmq.dashboard.page_request import AppContext, CspReport, Page, PageRequest
from cometmq.dashboard.pages import PAGES
from cometmq.dashboard.proxy_login import ProxyLogin, ProxyUser
from cometmq.dashboard.rendering import STATIC_DIR
from cometmq.dashboard.sessions import Session
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    CometError,
    MessageError,
    RequestError,
    SettingsError,
    TopicNotFound,
)
from cometmq.model.text import cut, printable

_log = logging.getLogger(__name__)

COOKIE = "cometmq_session"
_FIELDS_MAX = 200
_REPORTS_MAX = 100
_REPORTS_OF_ADDRESS_MAX = (
    10  # Reports need no login, so one address must not use up all the room.
)
_CHECKED_MS = 2_000  # How often the cluster is asked whether it still accepts a user.
_LOGGED_OUT = "You are logged out."


def new_app(contexts: Sequence[AppContext]) -> ASGIApp:
    """Return the application to run in an ASGI server: the pages of each cluster, with the security checks in front of them."""
    clusters = [Application(each) for each in contexts]
    routes: list[BaseRoute] = [
        Route(ALIVE_PATH, _alive, methods=["GET"]),
        Route("/csp-report", clusters[0].take_report, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC_DIR)),
    ]
    for context, cluster in zip(contexts, clusters, strict=True):
        if len(clusters) > 1:
            routes.append(_leads_to(context.link(""), context.link("/")))
        routes.append(Mount(context.link(""), cluster.pages()))
    if len(clusters) > 1:
        routes.append(_leads_to("/{path:path}", contexts[0].link("/")))
    return SecurityMiddleware(Starlette(routes=routes), contexts[0].settings.allowed_hosts)


def _leads_to(path: str, target: str) -> Route:
    return Route(path, lambda _request: RedirectResponse(target, 303))


async def _alive(_request: Request) -> Response:
    return PlainTextResponse("ok: the dashboard runs\n")


class Application:
    """The ASGI application that answers the requests of browsers for the pages of one cluster."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._authenticator = Authenticator(context.clients, context.users)
        self._proxy_login = ProxyLogin(context.settings, context.users)

    def pages(self) -> ASGIApp:
        """Return the application of the login and of all pages."""
        routes = [
            Route("/login", self._show_login, methods=["GET"]),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
            *(self._route(page) for page in PAGES),
        ]
        return Starlette(
            routes=routes,
            exception_handlers={
                HTTPException: self._not_served,
                FormRefused: self._not_let_in,
                Exception: self._broken,
            },
        )

    # --- login and logout

    async def _show_login(self, request: Request) -> Response:
        if self._session_of(request) is not None:
            return RedirectResponse(self._context.link("/"), 303)
        said = _LOGGED_OUT if "out" in request.query_params else ""
        return self._login_page(request.query_params.get("next", ""), said=said)

    def _login_page(
        self,
        after: str,
        *,
        said: str = "",
        problem: str = "",
        name: str = "",
        status: int = 200,
    ) -> Response:
        values = {
            "title": "Log in",
            "after": _own_path(after),
            "said": said,
            "problem": problem,
            "name": name,
        }
        return HTMLResponse(self._context.render("login.html", values), status)

    async def _log_in(self, request: Request) -> Response:
        fields = await _form(request)
        name, password = fields.get("name", "")[:200], fields.get("password", "")
        after = fields.get("next", "")
        address = request.client.host if request.client else "?"
        whose = f"{self._context.cluster}/{name}"  # Another cluster may have another user of this name.
        now_ms = self._context.clock.now_ms()
        if wait_ms := self._context.attempts.wait_ms(address, whose, now_ms):
            text = f"Too many wrong passwords. Try again in {span(wait_ms / 1000 + 1)}."
            return self._login_page(after, problem=text, name=name, status=429)
        self._context.attempts.failed(address, whose, now_ms)
        try:
            token = await self._token_of(name, password)
        except SettingsError as error:
            _log.error("No user can log in: %s", error)
            text = "The users file cannot be read; the log of the dashboard has the reason."
            return self._login_page(after, problem=text, name=name, status=500)
        if token is None:
            self._audit_login(name, address, "refused: the name or the password is wrong")
            text = "The name or the password is wrong."
            return self._login_page(after, problem=text, name=name, status=403)
        self._context.attempts.succeeded(address, whose)
        self._audit_login(name, address, "done")
        answer = RedirectResponse(_own_path(after) or self._context.link("/"), 303)
        answer.set_cookie(
            COOKIE,
            token,
            path="/",
            httponly=True,
            samesite="strict",
            secure=self._context.settings.is_secure,
        )
        return answer

    def _audit_login(self, name: str, address: str, outcome: str) -> None:
        now_ms = self._context.clock.now_ms()
        self._context.log_action(AuditEntry(now_ms, name, address, "log in", "", outcome))

    async def _token_of(self, name: str, password: str) -> str | None:
        sessions, now_ms = self._context.sessions, self._context.clock.now_ms()
        user = await self._authenticator.own_user(name, password)
        if user is not None:
            return sessions.begin(
                user.name, user.role, now_ms, stamp=f"{user.role}{user.password}"
            )
        if name in self._context.users.users():
            return None
        found = await self._authenticator.cluster_user(name, password)
        if found is None:
            return None
        credentials, role = found
        return sessions.begin(
            name, role, now_ms, credentials=credentials, cluster=self._context.cluster
        )

    async def _log_out(self, request: Request) -> Response:
        session = self._session_of(request)
        if session is not None:
            if not session.has_token((await _form(request)).get("csrf", "")):
                return self._problem(
                    FormRefused("This form belongs to another session; load the page again.")
                )
            self._context.sessions.end(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse(self._context.link("/login", out=1), 303)
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer

    def _session_of(self, request: Request, *, is_person: bool = True) -> Session | None:
        if (named := self._proxy_login.user(request.scope)) is not None:
            return self._proxy_session(request, named, is_person=is_person)
        token = request.cookies.get(COOKIE, "")
        session = self._context.sessions.find(
            token, self._context.clock.now_ms(), is_person=is_person
        )
        if session is None:
            return None
        if session.is_of_cluster:
            return session if session.cluster == self._context.cluster else None
        with contextlib.suppress(SettingsError):
            user = self._context.users.users().get(session.user)
            if user is not None and f"{user.role}{user.password}" == session.stamp:
                return session
        self._context.sessions.end(token)
        return None

    def _proxy_session(self, request: Request, named: ProxyUser, *, is_person: bool) -> Session:
        now_ms = self._context.clock.now_ms()
        session, is_new = self._context.sessions.of_proxy(*named, now_ms, is_person=is_person)
        if is_new:
            self._audit_login(
                named.name, request.client.host if request.client else "?", "done"
            )
        return session

    async def _is_gone(self, session: Session, request: Request) -> bool:
        """Ask the cluster, at most every 2 s, if it refuses a cluster user; if so, end the session and return True."""
        now_ms = self._context.clock.now_ms()
        if session.credentials is None or now_ms - session.checked_ms < _CHECKED_MS:
            return False
        session.checked_ms = now_ms
        clients = await self._context.clients.of(session.credentials)
        if not await self._authenticator.is_gone(clients):
            return False
        _log.warning(
            "User %s is logged out, because the cluster refuses the credentials",
            printable(session.user),
        )
        self._context.sessions.end(request.cookies.get(COOKIE, ""))
        return True

    # --- pages

    def _route(self, page: Page) -> Route:
        async def answer(request: Request) -> Response:
            session = self._session_of(request, is_person=not page.is_part)
            if session is None or await self._is_gone(session, request):
                return self._to_login(request, page)
            fields = await _form(request) if page.does else dict(request.query_params)
            context = self._context
            page_request = PageRequest(
                request, context, session, await context.clients.of(session.credentials), fields
            )
            if page.does is not None:
                return await self._do(page, page_request)
            try:
                return await page.show(page_request)
            except CometError as error:
                return self._failed(page, page_request, error)

        return Route(page.path, answer, methods=["POST" if page.does else "GET"])

    async def _do(self, page: Page, page_request: PageRequest) -> Response:
        """Handle a submitted form: check its token, the user's role and that it is new, apply it, return the answer.

        The audit gets "done", a CometError's text, or that the user may only read; nothing if the token is wrong or the
        form was sent before.
        """
        session, fields = page_request.session, page_request.fields
        if not session.has_token(fields.get("csrf", "")):
            return self._problem(
                FormRefused(
                    "This form belongs to another session or is too old; nothing was changed. Load the page again."
                ),
                page_request,
            )
        if not session.is_admin:
            page_request.audit(page.does or "", page_request.subject, "refused: may only read")
            return self._problem(
                FormRefused(
                    f"User {session.user} may only read; nothing was changed. Log in as an admin of the dashboard "
                    "to do this."
                ),
                page_request,
            )
        if not session.take_form(fields.get("once", "")[:64]):
            session.note("This form was sent before; it was not applied again.", is_well=False)
            return RedirectResponse(self._back(page_request), 303)
        try:
            answer = await page.show(page_request)
        except CometError as error:
            page_request.audit(page.does or "", page_request.subject, str(error))
            return await self._form_again(page, page_request, error)
        page_request.audit(page.does or "", page_request.subject, "done")
        return answer

    async def _form_again(
        self, page: Page, page_request: PageRequest, error: CometError
    ) -> Response:
        """Return the page that has the failed form, with the reason; an error page if none has it or that fails."""
        if page.form_on is None:
            return self._failed(page, page_request, error)
        page_request.problem, page_request.status = _sentence(error), _status(error)
        try:
            return await page.form_on(page_request)
        except CometError:
            return self._failed(page, page_request, error)

    def _failed(self, page: Page, page_request: PageRequest, error: CometError) -> Response:
        if page.is_part:
            # The error replaces this part of the page, which keeps refreshing itself.
            page_request.problem = _sentence(error)
            return page_request.page(
                "part_problem.html",
                "",
                refresh=str(page_request.http.url.path),
                query=page_request.http.url.query,
            )
        return self._problem(error, page_request)

    def _problem(self, error: CometError, page_request: PageRequest | None = None) -> Response:
        status = _status(error)
        if page_request is not None:
            page_request.status = status
            return page_request.page(
                "problem.html", _heading(error), text=_sentence(error), section=""
            )
        values = {"title": _heading(error), "text": _sentence(error)}
        return HTMLResponse(self._context.render("bare.html", values), status)

    async def _not_served(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        text = (
            "This page does not exist."
            if status == 404
            else "This page does not support that request method."
        )
        try:
            session = self._session_of(request)
        except FormRefused as refused:
            return self._problem(refused)
        if session is None and status == 404:
            return RedirectResponse(self._context.link("/login"), 303)
        values = {"title": "Page not found", "text": text}
        return HTMLResponse(self._context.render("bare.html", values), status)

    async def _not_let_in(self, _request: Request, error: Exception) -> Response:
        assert isinstance(error, FormRefused)
        return self._problem(error)

    async def _broken(self, _request: Request, error: Exception) -> Response:
        """Return an error page, without a traceback, for a request that failed by an unexpected exception."""
        values = {
            "title": "Internal error",
            "text": f"The page could not be created ({type(error).__name__}). The log of the dashboard has the details; please report them as an issue.",
        }
        return HTMLResponse(self._context.render("bare.html", values), 500)

    # --- the rest

    async def take_report(self, request: Request) -> Response:
        """Log a browser's report, usually of a CSP violation, and keep it for the audit page, up to a limit."""
        text = (await request.body())[:4000].decode("utf-8", "replace")
        address = request.client.host if request.client else "?"
        reports = self._context.csp_reports
        from_there = sum(each.address == address for each in reports)
        if len(reports) < _REPORTS_MAX and from_there < _REPORTS_OF_ADDRESS_MAX:
            reports.append(CspReport(address, cut(printable(text), 1000)))
            _log.warning(
                "A browser at %s reported a violation of the content security policy: %s",
                address,
                reports[-1].text,
            )
        return Response(status_code=204)

    def _to_login(self, request: Request, page: Page) -> Response:
        link, start = self._context.link, self._context.link("/")
        after = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if page.is_part:
            # Redirect the whole page to the login, not the part; after the login the browser returns to the page with the part.
            after = _path_of(request.headers.get("hx-current-url", start))
            return Response("", 401, {"HX-Redirect": link("/login", next=after)})
        return RedirectResponse(
            link("/login", next="" if page.does or after == start else after), 303
        )

    def _back(self, page_request: PageRequest) -> str:
        start = self._context.link("/")
        return _own_path(_path_of(page_request.http.headers.get("referer", start))) or start


def _path_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "/"
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _own_path(path: str) -> str:
    """Return a path if a redirect to it is safe and stays on this site; empty if not, for the login, or if too long."""
    is_own = (
        path.startswith("/")
        and not path.startswith(("//", "/\\"))
        and not path.partition("?")[0].endswith("/login")
        and path.isprintable()
        and "\\" not in path
    )
    return path if is_own and len(path) <= 2000 else ""


async def _form(request: Request) -> Mapping[str, str]:
    body = await request.body()
    kind = Headers(scope=request.scope).get("content-type", "").partition(";")[0]
    if body and kind != "application/x-www-form-urlencoded":
        return {}
    try:
        pairs = parse_qsl(
            body.decode("utf-8", "replace"),
            keep_blank_values=True,
            errors="replace",
            max_num_fields=_FIELDS_MAX,
        )
    except ValueError:
        return {}
    return dict(pairs)


# Errors that the client raises before it sends a request.
_WRONG = (WrongInput, RequestError, MessageError, SettingsError)


def _status(error: CometError) -> int:
    if isinstance(error, _WRONG):
        return 400
    if isinstance(error, FormRefused):
        return 403
    return 404 if isinstance(error, (PageMissing, TopicNotFound)) else 502


def _heading(error: CometError) -> str:
    if isinstance(error, (*_WRONG, FormRefused)):
        return "The request is not valid"
    if isinstance(error, BrokerRefused):
        return "The cluster refused the request"
    if isinstance(error, (PageMissing, TopicNotFound, BrokerNotFound)):
        return "Not found"
    return "The cluster does not answer correctly"


def _sentence(error: CometError) -> str:
    text = cut(str(error), 1000) or type(error).__name__
    return text[0].upper() + text[1:]
