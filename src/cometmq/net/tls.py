"""TLS of a server port (detection by the first byte, the server's certificate) and of outgoing connections.

A TLS handshake begins with 0x16, a frame with the highest byte of its length, which is 0 or 1. The server peeks at that
byte (MSG_PEEK) before it creates a transport: `ssl` of Python for TLS, otherwise a cleartext one, if that is allowed.
Changed certificate files are used for new connections if they are usable.
"""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from dataclasses import field
from enum import Enum

from cometmq.model.address import split_address
from cometmq.model.errors import ConnectError, SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.tls import TlsSettings

_log = logging.getLogger(__name__)

_HANDSHAKE = b"\x16"
# Seconds for the handshake; those for the first byte are the door's (`net.door`).
HANDSHAKE_SECONDS = 10.0
# Seconds to wait for the peer's close of a TLS connection.
SHUTDOWN_SECONDS = 2.0
# Interval in seconds for checking the certificate files.
LOOK_SECONDS = 2.0


class TlsMode(Enum):
    """The kinds of connections that a port accepts: disabled (cleartext), permissive (both) or enforcing (only TLS)."""

    disabled = "plain only"
    permissive = "both"
    enforcing = "TLS only"


_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME of OpenSSL.
# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL.
_WRONG_DATES = {
    9: "is not valid yet: check its dates and this machine's clock",
    10: "has expired, so clients that verify it cannot connect: replace it",
}


class ClientCheck(Enum):
    """The certificates asked of clients: none (not asked for), optional or require."""

    none = ssl.CERT_NONE
    optional = ssl.CERT_OPTIONAL
    require = ssl.CERT_REQUIRED


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The certificate files of a server.

    Attributes:
        cert_file: Certificate with its chain, PEM.
        key_file: Private key, PEM.
        key_password: Password of the key, or None.
        trust_file: CA certificates that sign clients' certificates, PEM; read only if clients are asked for theirs.
        check: Whether clients are asked for a certificate, and whether they must show one.
        protocols: Protocols to offer by ALPN; without any, it is left out of the handshake.
    """

    cert_file: str
    key_file: str
    key_password: str | None = field(default=None, repr=False)
    trust_file: str | None = None
    check: ClientCheck = ClientCheck.none
    protocols: tuple[str, ...] = ()

    def load(self) -> tuple[ssl.SSLContext, float | None]:
        """Return the TLS context for accepted connections, and when the certificate expires (seconds since 1970, or None).

        Raises:
            SettingsError: A file is missing or unusable.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # All offered ciphers are strong. The client knows which is fast on its processor (mostly AES-128).
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
        if self.protocols:
            context.set_alpn_protocols(self.protocols)
        load_pair(context, self.cert_file, self.key_file, self.key_password)
        if self.check is not ClientCheck.none:
            if self.trust_file is None:
                raise SettingsError(
                    "tls.server.need.client.auth asks for certificates of clients, but no CA certificate is configured "
                    "to verify them: set tls.server.trustCertPath"
                )
            load_trusted(context, self.trust_file)
        expires = check_dates(context, self.cert_file)
        context.verify_mode = self.check.value
        return context, expires

    def looks(self) -> list[tuple[int, int, int] | None]:
        """Return inode, size and mtime of each file (None if unset or not accessible) in a list, to detect changes."""
        found: list[tuple[int, int, int] | None] = []
        for path in (self.cert_file, self.key_file, self.trust_file):
            try:
                status = os.stat(path) if path else None  # noqa: PTH116
            except OSError:
                status = None
            found.append(status and (status.st_ino, status.st_size, status.st_mtime_ns))
        return found


def load_pair(
    context: ssl.SSLContext, cert_file: str, key_file: str, password: str | None
) -> None:
    """Load a certificate with its key into a context.

    Raises:
        SettingsError: The files are unusable or do not match, or the mode of the key file lets all users access it.
    """
    try:
        if os.stat(key_file).st_mode & 0o007:  # noqa: PTH116
            raise SettingsError(
                f"other users can access the private key {key_file}: run chmod 600 on it"
            )
        # Without a password OpenSSL would prompt on the terminal.
        context.load_cert_chain(cert_file, key_file, password or "")
    except ssl.SSLError as error:
        reason = (error.reason or "unreadable").replace("_", " ").lower()
        raise SettingsError(
            f"certificate {cert_file} with key {key_file}: {reason}; both must be PEM files that belong together, and "
            "an encrypted key needs its password"
        ) from None
    except OSError as error:
        raise SettingsError(
            f"certificate {cert_file} or its key {key_file} cannot be read: {error.strerror or error}"
        ) from None


def check_dates(context: ssl.SSLContext, cert_file: str) -> float | None:
    """Return when a loaded certificate expires, in seconds since 1970; None if that is not known, because it has a defect.

    Raise SettingsError if it has expired or is not valid yet; other defects are ignored.

    `ssl` reveals the dates only to a peer, so this needs a handshake in memory.
    """
    asker = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asker.check_hostname = False
    asker.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    asker.load_verify_locations(cert_file)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asker.wrap_bio(back, there)
    server = context.wrap_bio(there, back, server_side=True)
    try:
        for end in (client, server, client):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    except ssl.SSLCertVerificationError as error:
        if wrong := _WRONG_DATES.get(error.verify_code):
            raise SettingsError(f"certificate {cert_file} {wrong}") from None
        return None
    except ssl.SSLError:
        return None
    try:
        until = (client.getpeercert() or {}).get("notAfter")
    except ValueError:  # The handshake has not ended.
        return None
    return float(ssl.cert_time_to_seconds(until)) if isinstance(until, str) else None


async def served_certificate_end(address: str, *, seconds: float) -> int | None:
    """Return when the certificate that a server shows expires or expired, ms since 1970; None if it shows none in time.

    `ssl` reveals the dates of a trusted certificate only. So the first connection fetches the certificate, and the second
    one trusts it, whoever has signed it.
    """
    anyone = _asking_context()
    anyone.verify_mode = ssl.CERT_NONE
    trusting = _asking_context()
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    try:
        async with asyncio.timeout(seconds):
            shown, _ = await _shown_certificate(address, anyone)
            trusting.load_verify_locations(cadata=shown)
            _, end = await _shown_certificate(address, trusting)
        return ssl.cert_time_to_seconds(end) * 1000
    except (TimeoutError, OSError, ValueError):  # An ssl.SSLError is an OSError.
        return None


def _asking_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    return context


async def _shown_certificate(address: str, context: ssl.SSLContext) -> tuple[bytes, str]:
    """Return the certificate that a server shows in a handshake, and its end as text if `context` trusts it, else "".

    Raises OSError or ValueError if there is no server, no handshake or no certificate.
    """
    host, port = split_address(address)
    transport, _ = await asyncio.get_running_loop().create_connection(
        asyncio.Protocol, host, port, ssl=context
    )
    try:
        state: ssl.SSLObject = transport.get_extra_info("ssl_object")
        shown, dates = state.getpeercert(binary_form=True), state.getpeercert() or {}
    finally:
        transport.abort()
    if shown is None:
        raise ValueError(f"{address} shows no certificate")
    return shown, str(dates.get("notAfter", ""))


def load_trusted(context: ssl.SSLContext, path: str) -> None:
    """Trust the CA certificates in a file; raise SettingsError if it has none or cannot be read."""
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise SettingsError(f"{path} has no readable certificates in PEM format") from None
    except OSError as error:
        raise SettingsError(
            f"CA certificates {path} cannot be read: {error.strerror or error}"
        ) from None


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Create the TLS context for connections to servers; raise SettingsError if a file cannot be used."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.ca_file is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        load_trusted(context, settings.ca_file)
    if settings.cert_file is not None:
        key_file = settings.key_file or settings.cert_file
        load_pair(context, settings.cert_file, key_file, settings.key_password)
    if not settings.check_server:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class ServerTls:
    """The kinds of connections that a server port accepts, and the certificate that it shows.

    Attributes:
        mode: Kinds of connections that the port accepts.
        expires: When the certificate expires, seconds since 1970; None if that is not known.
    """

    def __init__(self, mode: TlsMode, files: ServerFiles) -> None:
        """Read the certificate files; raise SettingsError if they cannot be used."""
        self.mode = mode
        self._files = files
        self._looks = files.looks()
        self._context, self.expires = files.load()

    def look(self) -> None:
        """Reload changed files and keep the old ones if the new ones are unusable; callable in any thread."""
        looks = self._files.looks()
        if looks == self._looks:
            return
        self._looks = looks
        try:
            self._context, self.expires = self._files.load()
        except SettingsError as error:
            _log.error(
                "the changed certificate is not used, and the old one stays in use: %s", error
            )
        else:
            _log.info(
                "the changed certificate %s is used for new connections", self._files.cert_file
            )

    async def context_for(self, connection: socket.socket) -> ssl.SSLContext | None:
        """Wait for the first byte; return the TLS context for a connection, or None for cleartext or if the peer left.

        Raises:
            ConnectError: The peer sends cleartext although TLS is required.
        """
        first = await _first_byte(connection)
        if first == _HANDSHAKE:
            return self._context
        if first and self.mode is TlsMode.enforcing:
            raise ConnectError("it does not use TLS, which tls.server.mode=enforcing requires")
        return None


async def _first_byte(connection: socket.socket) -> bytes:
    """Wait for the first byte and return it without consuming it; b"" if the connection ends or fails instead."""
    loop = asyncio.get_running_loop()
    is_there = asyncio.Event()
    number = connection.fileno()
    loop.add_reader(number, is_there.set)
    try:
        await is_there.wait()
    finally:
        loop.remove_reader(number)
    with contextlib.suppress(OSError):
        return connection.recv(1, socket.MSG_PEEK)
    return b""


async def follow_certificate(tls: ServerTls) -> None:
    """Check the certificate files every 2 s and reload changed ones, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        await asyncio.to_thread(tls.look)
