"""TLS from the browser to the brokers: pages over https, of a cluster that takes nothing plain."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.dashboard.test_browser import Watched
from tests.dashboard.test_silent import COUNT
from tests.dashboard.web import ADMIN, Served, Visitor, text_of, wait_for
from tests.support import certificates
from tests.support.chromium import chromium
from tests.support.programs import small_cluster


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificates.authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def encrypted(ca: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a nameserver of a cluster whose programs have certificates and refuse what is plain."""
    folder = tmp_path_factory.mktemp("encrypted")
    keys = {**certificates.server_keys(ca), "tls.server.mode": "enforcing"}
    towards = {"tls.enable": "true", "tls.client.trustCertPath": ca, "brokerName": "broker-t"}
    with small_cluster(folder, keys, **keys, **towards) as (names, _):
        yield names.address


@pytest.fixture(scope="module")
def secure(
    ca: Path, encrypted: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A dashboard with a certificate, which speaks TLS to that cluster."""
    cert, key = certificates.signed(ca, "dashboard")
    options = ("--tls-cert", str(cert), "--tls-key", str(key))
    trust = {"COMETMQ_TLS": "true", "COMETMQ_TLS_CA_FILE": str(ca)}
    folder = tmp_path_factory.mktemp("dashboard")
    with Served(folder, encrypted, *options, env=trust, scheme="https") as made:
        yield made


def test_pages_and_actions_over_tls_from_end_to_end(secure, ca):
    visitor = Visitor(secure, ssl.create_default_context(cafile=str(ca)))
    login = visitor.http.post("/login", data={"name": ADMIN, "password": secure.password})
    assert login.status_code == 303
    assert "; Secure" in login.headers["set-cookie"]
    visitor.log_in()
    assert "broker-t" in wait_for(visitor, "/brokers", "broker-t")
    made = visitor.post("/topics/create", name="over-tls", write="2", read="2")
    assert "The topic over-tls is created." in text_of(made)
    wait_for(visitor, "/topic", "Send a message", name="over-tls")
    sent = visitor.post("/topic/send", name="over-tls", body="nobody reads along", keys="tls")
    assert "Stored in queue" in text_of(sent)
    found = wait_for(
        visitor, "/messages", "nobody reads along", by="key", topic="over-tls", key="tls"
    )
    assert "1 message" in found or "nobody reads along" in found


def test_who_does_not_trust_the_certificate_gets_no_page(secure):
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(secure.url, trust_env=False, timeout=20)


def test_a_plain_request_gets_no_page(secure):
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"http://127.0.0.1:{secure.port}/login", trust_env=False, timeout=20)


def test_connections_whose_handshake_does_not_end_are_few_and_closed(secure, ca):
    """uvicorn counts none of them, and asyncio gives each 60 s."""
    half = b"\x16\x03\x01\x02\x00\x01"
    context = ssl.create_default_context(cafile=str(ca))
    with contextlib.ExitStack() as stack:
        held = []
        for number in range(COUNT):
            made = socket.create_connection(("127.0.0.1", secure.port), timeout=20)
            held.append(stack.enter_context(made))
            with contextlib.suppress(OSError):
                made.sendall(half if number % 2 else b"")
        http = stack.enter_context(
            httpx.Client(base_url=secure.url, verify=context, trust_env=False, timeout=20)
        )
        assert http.get("/login").status_code == 200
        assert is_ended(held[0], seconds=20), "others have come since"
        for connection in held[-2:]:
            assert is_ended(connection, seconds=40)


def is_ended(connection: socket.socket, *, seconds: float) -> bool:
    connection.settimeout(seconds)
    with contextlib.suppress(ConnectionResetError):
        return connection.recv(100) == b""
    return True


def test_a_dashboard_without_tls_is_refused_by_such_a_cluster_and_says_so(encrypted, tmp_path):
    with Served(tmp_path, encrypted) as plain:
        visitor = Visitor(plain).log_in()
        said = visitor.get("/topics")
        assert said.status_code == 502
        assert "Traceback" not in said.text
        assert encrypted in text_of(said)


def test_a_browser_shows_live_pages_over_tls(secure):
    with chromium() as browser:
        # The authority of the test stands in no store of the machine; the test above looks at the certificate.
        tab = Watched(browser.new_context(ignore_https_errors=True).new_page(), secure.url)
        tab.log_in(ADMIN, secure.password)
        tab.page.wait_for_selector("main >> text=broker-t", timeout=30_000)
        tab.page.wait_for_selector(".chart canvas", timeout=30_000)
    tab.is_well()


class Proxy:
    """Ends TLS in front of a dashboard, and passes on what it reads as it came."""

    def __init__(self, served: Served, cert: Path, key: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self._to, self._port = served.port, 0
        self._is_ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(
            target=lambda: self._loop.run_until_complete(self._run()), daemon=True
        )

    def __enter__(self) -> str:
        """The address that browsers see."""
        self._thread.start()
        assert self._is_ready.wait(60)
        return f"https://127.0.0.1:{self._port}"

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(60)
        self._loop.close()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self._port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        await self._ended.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        back, forth = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            await asyncio.gather(_pass(reader, forth), _pass(back, writer))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            for each in (forth, writer):
                each.transport.abort()
            await asyncio.sleep(0)  # They are closed in the loop's next turn.


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(1 << 16):
        writer.write(part)
        await writer.drain()
    writer.close()


def test_behind_a_proxy_that_ends_tls_pages_and_actions_are_as_over_tls(
    nameserver, ca, tmp_path
):
    options = ("--behind-proxy", "--host-name", "mq.example.org")
    with (
        Served(tmp_path, nameserver, *options) as served,
        Proxy(served, *certificates.signed(ca, "proxy")) as url,
    ):
        visitor = Visitor(served, ssl.create_default_context(cafile=str(ca)))
        visitor.http.base_url = httpx.URL(url)
        visitor.http.headers["host"] = "mq.example.org"
        given = {"name": ADMIN, "password": served.password}
        login = visitor.http.post("/login", data=given)
        assert login.status_code == 303
        assert login.headers["location"].startswith("/")
        # The browser speaks TLS, so its cookie goes nowhere else.
        assert "; Secure" in login.headers["set-cookie"]
        visitor.log_in()
        origin = {"origin": "https://mq.example.org"}
        carried = {"csrf": visitor.csrf, "once": "proxied", "name": "behind-a-proxy"}
        made = visitor.http.post("/groups/create", data=carried, headers=origin)
        assert made.status_code == 303, text_of(made)
        assert "behind-a-proxy" in wait_for(visitor, "/groups", "behind-a-proxy")
        other = visitor.http.get("/groups", headers={"host": "other.example.org"})
        assert other.status_code == 421


def test_without_a_proxy_or_a_certificate_it_listens_for_this_machine_alone(tmp_path):
    from cometmq.dashboard.settings import DashboardSettings
    from cometmq.model.errors import SettingsError

    with pytest.raises(SettingsError, match="--behind-proxy"):
        DashboardSettings(host="10.0.0.5", data_dir=tmp_path)
    assert DashboardSettings(host="10.0.0.5", data_dir=tmp_path, is_behind_proxy=True).is_secure
