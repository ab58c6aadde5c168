"""Security middleware for HTTP requests: checks host, method, origin and body size, and sets headers of answers."""

import asyncio
import logging
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cometmq.model.numbers import whole_number
from cometmq.model.text import in_quotes

_log = logging.getLogger(__name__)

ALIVE_PATH = "/healthz"
BODY_MAX = 1_000_000
BODY_SECONDS = 10.0
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; report-uri /csp-report"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with it browsers send the Origin "null" with a form.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), usb=()",
}
_METHODS = frozenset(("GET", "HEAD", "POST"))


class SecurityMiddleware:
    """ASGI middleware that refuses HTTP requests by host, method, origin or body, and adds security headers to answers.

    `hosts` are the host names by which browsers may reach the application, without ports.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request with a refusal, or pass it to the application; ignore WebSocket connections."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        sender = _with_headers(send, scope["path"])
        refusal = self._refusal(scope)
        body = b""
        if refusal is None and scope["method"] == "POST":
            try:
                body = await asyncio.wait_for(_read(receive), BODY_SECONDS)
            except TimeoutError:
                refusal = (
                    408,
                    f"The rest of the request did not arrive within {BODY_SECONDS:.0f} s.",
                )
            except ValueError as error:
                refusal = 413, str(error)
        if refusal is not None:
            status, text = refusal
            answer = PlainTextResponse(text + "\n", status, {"Connection": "close"})
            await answer(scope, receive, sender)
            return
        await self._app(scope, _given(body, receive), sender)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and text with which a request is refused because of its head; None if its head is acceptable."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        # Kubernetes asks by the address of the pod, which may not be one of the host names.
        if _name(host) not in self._hosts and scope["path"] != ALIVE_PATH:
            return 421, (
                f"The host name {in_quotes(host, 100)} is not one of this dashboard; use "
                f"{', '.join(sorted(self._hosts))}, or add it with --host-name."
            )
        if scope["method"] not in _METHODS:
            return (
                405,
                f"The method {in_quotes(scope['method'], 20)} is not supported; use GET for pages and POST for forms.",
            )
        if scope["method"] == "POST" and scope["path"] != "/csp-report":
            origin = headers.get("origin")
            if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") or (
                origin is not None and urlsplit(origin).netloc.lower() != host.lower()
            ):
                return 403, "This form was sent by another site; nothing was changed."
        length = whole_number(headers.get("content-length", "0"))
        if length is None or length > BODY_MAX:
            return (
                413,
                f"The body of a request may have at most {BODY_MAX} bytes; send larger messages with a producer.",
            )
        return None


def _name(host: str) -> str:
    """Return a Host header without its port, in lower case."""
    if host.endswith("]"):
        return host.lower()
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


async def _read(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_MAX:
            raise ValueError(f"The body of a request may have at most {BODY_MAX} bytes.")
        if not message.get("more_body", False):
            return b"".join(parts)


def _given(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` that first returns `body` as the complete body, and then what the given `receive` returns."""
    is_given = False

    async def give() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give


def _with_headers(send: Send, path: str) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            # The address of a static file contains its version; pages are for one user and must not be cached.
            is_file = path.startswith("/static/") and message["status"] == 200
            headers["Cache-Control"] = (
                "public, max-age=31536000, immutable" if is_file else "no-store"
            )
        await send(message)

    return send_with_headers
