"""TLS of a server's port: who speaks it, told by the first byte, and with which certificate.

A TLS handshake begins with 0x16, a frame with the highest byte of its length, which is 0 or 1. That byte is looked at before a
transport is made, and left in the socket (MSG_PEEK): whoever speaks TLS gets a transport of Python's `ssl` from the loop, others a
plain one. A certificate that changes on the disk is taken for new connections.
"""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from dataclasses import field
from enum import Enum

from cometmq.model.errors import ConnectError, SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.tls import TlsSettings

_log = logging.getLogger(__name__)

_HANDSHAKE = b"\x16"
# How long a connection may say nothing at all, and how long its handshake may take, seconds.
FIRST_BYTE_SECONDS = 15.0
HANDSHAKE_SECONDS = 10.0
# How long the end of a TLS connection waits for the other side's.
SHUTDOWN_SECONDS = 2.0
# How often certificates are looked at.
LOOK_SECONDS = 2.0


class TlsMode(Enum):
    """The connections that a port takes; the words are RocketMQ's."""

    disabled = "plain only"
    permissive = "both"
    enforcing = "TLS only"


# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL.
_WRONG_DATES = {
    9: "is not valid yet: see its dates, and this machine's clock",
    10: "has expired: no client that looks would come; put a new one there",
}


class ClientCheck(Enum):
    """Whether clients show certificates; the words are RocketMQ's."""

    none = ssl.CERT_NONE
    optional = ssl.CERT_OPTIONAL
    require = ssl.CERT_REQUIRED


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The certificate of a server.

    Attributes:
        cert_file: its certificate and what it is signed with, PEM.
        key_file: its key, PEM.
        key_password: of the key.
        trust_file: who signs clients' certificates, PEM.
        check: whether clients show one.
    """

    cert_file: str
    key_file: str
    key_password: str | None = field(default=None, repr=False)
    trust_file: str | None = None
    check: ClientCheck = ClientCheck.none

    def context(self) -> ssl.SSLContext:
        """The TLS context of a server's connections.

        Raises:
            SettingsError: a file cannot be used; the message names it.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Of ciphers that are all good the client's first: it knows what its processor does fast (AES of 128 bits, mostly).
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
        load_pair(context, self.cert_file, self.key_file, self.key_password)
        if self.check is not ClientCheck.none:
            if self.trust_file is None:
                raise SettingsError(
                    "clients are to show certificates, and nothing says who signs them: name tls.server.trustCertPath"
                )
            load_trusted(context, self.trust_file)
        check_dates(context, self.cert_file)
        context.verify_mode = self.check.value
        return context

    def looks(self) -> list[tuple[int, int, int] | None]:
        """The traits of the files by which it is seen that they were written to."""
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
    """Load a certificate with its key.

    Raises:
        SettingsError: they cannot be read, do not fit each other, or others may read the key.
    """
    try:
        if os.stat(key_file).st_mode & 0o007:  # noqa: PTH116
            raise SettingsError(f"{key_file} is a key, and others may read it: chmod 600")
        # Without a password OpenSSL would ask the terminal.
        context.load_cert_chain(cert_file, key_file, password or "")
    except ssl.SSLError as error:
        reason = (error.reason or "unreadable").replace("_", " ").lower()
        raise SettingsError(
            f"certificate {cert_file} with key {key_file}: {reason}; PEM files that belong together are wanted, and the "
            "password of the key if it has one"
        ) from None
    except OSError as error:
        raise SettingsError(f"{cert_file}, {key_file}: {error.strerror or error}") from None


def check_dates(context: ssl.SSLContext, cert_file: str) -> None:
    """Shake hands with oneself in memory: `ssl` tells the dates of a certificate to nobody but a peer.

    Raises:
        SettingsError: it has expired, or is not valid yet. What else there is to say of it, clients say.
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
            raise SettingsError(f"certificate {cert_file}: it {wrong}") from None
    except ssl.SSLError:
        return


def load_trusted(context: ssl.SSLContext, path: str) -> None:
    """Trust who is in a file.

    Raises:
        SettingsError: it cannot be read.
    """
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise SettingsError(f"{path}: no certificates in PEM can be read there") from None
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The TLS context of connections to servers: the certificate and its host name are checked.

    Raises:
        SettingsError: a file cannot be used; the message names it.
    """
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
    """TLS of a server.

    Attributes:
        mode: what its port takes.
    """

    def __init__(self, mode: TlsMode, files: ServerFiles) -> None:
        """Read the certificate.

        Raises:
            SettingsError: it cannot be used.
        """
        self.mode = mode
        self._files = files
        self._looks = files.looks()
        self._context = files.context()

    def look(self) -> None:
        """Take files that have changed; what cannot be used changes nothing. In any thread."""
        looks = self._files.looks()
        if looks == self._looks:
            return
        self._looks = looks
        try:
            self._context = self._files.context()
        except SettingsError as error:
            _log.error("the certificate stays as it was: %s", error)
        else:
            _log.info("the certificate %s is taken for new connections", self._files.cert_file)

    async def context_for(self, connection: socket.socket) -> ssl.SSLContext | None:
        """The TLS context with which an accepted connection is served; None: plain.

        Raises:
            ConnectError: it is not served: it says nothing, or is plain where TLS is wanted.
        """
        is_tls = await _first_byte(connection) == _HANDSHAKE
        if not is_tls and self.mode is TlsMode.enforcing:
            raise ConnectError("it does not speak TLS (tls.server.mode=enforcing)")
        return self._context if is_tls else None


async def _first_byte(connection: socket.socket) -> bytes:
    """Peek at the first byte of a connection."""
    loop = asyncio.get_running_loop()
    is_there = asyncio.Event()
    number = connection.fileno()
    loop.add_reader(number, is_there.set)
    try:
        async with asyncio.timeout(FIRST_BYTE_SECONDS):
            await is_there.wait()
        first = b""
        with contextlib.suppress(OSError):
            first = connection.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        raise ConnectError(f"it said nothing for {FIRST_BYTE_SECONDS:.0f} s") from None
    finally:
        loop.remove_reader(number)
    if not first:
        raise ConnectError("it went without a word")
    return first


async def follow_certificate(tls: ServerTls) -> None:
    """Look at the files as long as the program runs."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        await asyncio.to_thread(tls.look)
