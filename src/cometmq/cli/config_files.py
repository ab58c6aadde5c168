"""Checks configuration files of all kinds for `cometmq config check`, with the functions that the start itself uses.

A running program is not disturbed: nothing is written, and a port is only bound for a moment.
"""

import logging
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cometmq.access.keys import check_secret_files
from cometmq.cli.credentials import KEYS, check_secrecy, read_tools
from cometmq.codec.java_properties import property_lines
from cometmq.model.address import PortClaim, split_address
from cometmq.model.errors import CodecError, CometError, SettingsError
from cometmq.model.judged_keys import (
    BYTE_ORDER_MARK,
    WARNED,
    JudgedKey,
    KeyVerdict,
    judge_keys,
)
from cometmq.model.settings import HIDDEN, settings_by_name
from cometmq.model.text import as_utf8, error_text, in_quotes
from cometmq.net.port_check import port_problems
from cometmq.process.containers import container_with_own_network, listening_host

if TYPE_CHECKING:
    from cometmq.broker.settings.broker_settings import BrokerSettings

_ORDER = list(KeyVerdict)
_LINE = re.compile(r"line (\d+): (.*)", re.DOTALL)
_COMMENT = re.compile(r"\s(#|//)")
_SEPARATORS = re.compile(r"[,\s]")
_WHITE = "an address replaces no signature here, unless aclWhiteAddressesUnsigned=true is in broker.conf"


class CheckedRow(NamedTuple):
    """A row of the check of a file.

    Attributes:
        verdict: What becomes of it.
        text: Why, and what to do; empty if the verdict says it all.
        key: The key; None for what concerns the whole file or the machine.
        value: Its value, hidden if it is a secret.
        line: The number of its line, from 1; None if it is not in the file.
    """

    verdict: KeyVerdict
    text: str
    key: str | None = None
    value: str | None = None
    line: int | None = None

    @property
    def severity(self) -> str:
        """Severity of the row: bad (no start), warning (the start warns, or should), note or fine."""
        if self.verdict is KeyVerdict.REFUSED:
            return "bad"
        if self.verdict in WARNED:
            return "warning"
        return "fine" if self.verdict is KeyVerdict.USED else "note"

    def to_json(self) -> dict[str, object]:
        """Return the row as a dict for `print_json`."""
        return {**self._asdict(), "severity": self.severity}


def kind_of(file: Path, content: bytes, asked: str | None) -> str:
    """Return the kind of a file, a key of `KINDS`: the one asked for, or by its name and content.

    Raises SettingsError if it cannot be recognised, or there is no such kind.
    """
    if asked is not None and asked not in KINDS:
        raise SettingsError(f"--kind {asked}: it must be one of {', '.join(KINDS)}")
    if asked is not None:
        return asked
    name = file.name.lower()
    if name.endswith(".json"):
        return "proxy"
    if name.endswith((".yml", ".yaml")):
        is_tools = any(line.startswith(b"accessKey") for line in content.splitlines())
        return "tools" if is_tools else "accounts"
    if "namesrv" in name or "nameserver" in name:
        return "nameserver"
    return "broker" if "broker" in name else _kind_by_keys(content)


def check_file(file: Path, content: bytes, kind: str) -> list[CheckedRow]:
    """Check a file of a kind (a key of `KINDS`); return the rows, the worst first, then by their lines."""
    found = list[CheckedRow]()
    try:
        for each in KINDS[kind](file, content):
            found.append(each)  # Not `extend`: those before an error are kept.
    except (CometError, OSError) as error:
        found.append(_refused(error))
    by_key = {each.key: each for each in found if each.key is not None}
    located = [_located(each, by_key) for each in dict.fromkeys(found)]
    worse = {each.key for each in located if each.severity in ("bad", "warning")}
    shown = [
        each for each in located if each.verdict is not KeyVerdict.USED or each.key not in worse
    ]
    return sorted(
        shown, key=lambda each: (_ORDER.index(each.verdict), each.line is None, each.line or 0)
    )


def _located(finding: CheckedRow, by_key: Mapping[str, CheckedRow]) -> CheckedRow:
    """Return a row with its UTF-8 decoded; if its text begins with "KEY=VALUE: " of the file, as that key's row."""
    text = as_utf8(finding.text)
    if finding.key is None:
        row = by_key.get(text.partition("=")[0])
        return finding._replace(text=text) if row is None else row._replace(
            verdict=finding.verdict, text=text.removeprefix(f"{row.key}={row.value}: ")
        )  # fmt: skip
    return finding._replace(text=text, key=as_utf8(finding.key).removeprefix("\ufeff"))


def _kind_by_keys(content: bytes) -> str:
    from cometmq.broker.settings.broker_settings import BrokerSettings
    from cometmq.nameserver.settings import NameServerSettings

    of_broker = settings_by_name(BrokerSettings).keys()
    of_nameserver = settings_by_name(NameServerSettings).keys()
    try:
        keys = property_lines(content).keys()
    except CodecError:
        keys = {}.keys()
    broker, nameserver = len(keys & of_broker), len(keys & of_nameserver)
    if broker == nameserver:
        raise SettingsError(
            f"neither name nor keys of this file tell what it is for; name its kind: --kind {' or '.join(KINDS)}"
        )
    return "broker" if broker > nameserver else "nameserver"


# --- programs


def _check_broker(file: Path, content: bytes) -> Iterator[CheckedRow]:
    from cometmq.broker.settings.broker_settings import (
        BrokerSettings,
        layers_of,
        nameserver_hints,
    )
    from cometmq.broker.settings.unsupported_keys import UNSUPPORTED_KEYS

    layers = layers_of(str(file), os.environ)
    yield from _outcome(lambda: check_secret_files(BrokerSettings, layers))
    reading = judge_keys(BrokerSettings, layers, UNSUPPORTED_KEYS)
    yield from _of_keys(reading.judged, file, content)
    settings = BrokerSettings(**reading.values)
    for hint in nameserver_hints(settings):
        yield CheckedRow(KeyVerdict.DOUBTFUL, hint)
    yield from _before_start(settings)


def _before_start(settings: "BrokerSettings") -> Iterator[CheckedRow]:
    from cometmq.broker import start_check
    from cometmq.broker.registration.addresses import addresses_of

    for check in (*start_check.CHECKS, *start_check.MACHINE_CHECKS):
        yield from _outcome(check, settings)
    hosts = list[str]()
    yield from _outcome(lambda: hosts.append(addresses_of(settings).listen_host))
    yield from _unresolved(f"namesrvAddr={settings.nameservers}", settings.nameserver_addresses)
    if settings.ha_master:
        yield from _unresolved(f"haMasterAddress={settings.ha_master}", [settings.ha_master])
    if start_check.is_running(settings):
        yield CheckedRow(
            KeyVerdict.NO_EFFECT,
            f"a broker has {settings.store_directory} open now, so the ports were not checked; stop it before a start "
            "with this file",
        )
        return
    for host in hosts:
        yield from _of_ports(start_check.ports_of(settings, host))


def _check_nameserver(file: Path, content: bytes) -> Iterator[CheckedRow]:
    from cometmq.nameserver import start_check
    from cometmq.nameserver.settings import UNSUPPORTED_KEYS, NameServerSettings, layers_of

    layers = layers_of(str(file), os.environ)
    yield from _outcome(lambda: check_secret_files(NameServerSettings, layers))
    reading = judge_keys(NameServerSettings, layers, UNSUPPORTED_KEYS)
    yield from _of_keys(reading.judged, file, content)
    settings = NameServerSettings(**reading.values)
    for check in start_check.CHECKS:
        yield from _outcome(check, settings)
    for check in start_check.LATER_CHECKS:
        for each in _outcome(check, settings):
            yield each._replace(verdict=KeyVerdict.DOUBTFUL)
    host = listening_host(settings.bind_address, container_with_own_network())
    yield from _of_ports(start_check.ports_of(settings, host))


def _of_keys(judged: Sequence[JudgedKey], file: Path, content: bytes) -> Iterator[CheckedRow]:
    lines = property_lines(content)
    origin = str(file.absolute())
    for each in judged:
        places = lines.get(each.key, []) if each.origin == origin else []
        text = each.why if places else f"{each.origin}: {each.why}".removesuffix(": ")
        if each.verdict is KeyVerdict.UNKNOWN and not each.key.startswith(BYTE_ORDER_MARK):
            text = f"neither CometMQ nor RocketMQ has this setting{'; ' if text else ''}{text}"
        line = places[-1][0] if places else None
        yield CheckedRow(each.verdict, text, each.key, each.text, line)
        yield from _of_lines(each, places)


def _of_lines(judged: JudgedKey, places: Sequence[tuple[int, str]]) -> Iterator[CheckedRow]:
    """Yield what is doubtful in how a key is written."""
    if len({value.strip() for _, value in places}) > 1:
        numbers = ", ".join(str(line) for line, _ in places)
        yield CheckedRow(
            KeyVerdict.DOUBTFUL,
            f"it is set in the lines {numbers}, and only the last one counts; remove the others",
            judged.key, judged.text, places[-1][0],
        )  # fmt: skip
    if places and _COMMENT.search(places[-1][1]):
        yield CheckedRow(
            KeyVerdict.DOUBTFUL, "a comment needs a line of its own; here it is a part of the value",
            judged.key, judged.text, places[-1][0],
        )  # fmt: skip
    if places and judged.text != HIDDEN and not as_utf8(places[-1][1].strip()).isprintable():
        yield CheckedRow(
            KeyVerdict.DOUBTFUL,
            "it has a character that cannot be printed; in such a file a backslash begins an escape: write / or \\\\",
            judged.key, judged.text, places[-1][0],
        )  # fmt: skip


def _of_ports(claims: Sequence[PortClaim]) -> Iterator[CheckedRow]:
    for claim, text in port_problems(claims):
        yield CheckedRow(KeyVerdict.REFUSED if claim.is_needed else KeyVerdict.DOUBTFUL, text)


def _unresolved(setting: str, addresses: Sequence[str]) -> Iterator[CheckedRow]:
    """Yield a row for each address whose host is a name that this machine cannot resolve; skip malformed ones."""
    for address in addresses:
        try:
            host, port = split_address(address)
        except ValueError:
            continue
        if _SEPARATORS.search(host):
            continue  # `nameserver_hints` has said it.
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, ValueError) as error:
            yield CheckedRow(
                KeyVerdict.DOUBTFUL,
                f"{setting}: the name {in_quotes(host)} cannot be resolved on this machine ({error_text(error)}); the broker "
                "starts and tries again",
            )


def _outcome(check: Callable[..., object], *arguments: object) -> Iterator[CheckedRow]:
    """Run a check of a start; yield what it logs as doubtful, and what it raises as refused."""
    found = list[CheckedRow]()
    with _log_texts() as logged:
        try:
            check(*arguments)
        except (CometError, OSError) as error:
            found.append(_refused(error))
    yield from found
    yield from (CheckedRow(KeyVerdict.DOUBTFUL, text) for text in logged)


@contextmanager
def _log_texts() -> Iterator[list[str]]:
    """Collect the warnings that the package logs, instead of printing them."""
    texts = list[str]()

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())

    log, collector = logging.getLogger("cometmq"), Collector(logging.WARNING)
    passes_on, log.propagate = log.propagate, False
    log.addHandler(collector)
    try:
        yield texts
    finally:
        log.removeHandler(collector)
        log.propagate = passes_on


def _refused(error: Exception) -> CheckedRow:
    text = str(error)
    if isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error_text(error)}"
    return CheckedRow(KeyVerdict.REFUSED, text)


# --- users


def _check_accounts(file: Path, _content: bytes) -> Iterator[CheckedRow]:
    from cometmq.access.account_files import account_bytes, accounts_by_name, check_readers
    from cometmq.access.account_text import read_accounts
    from cometmq.access.known_users import check_migration

    path, errors = str(file.absolute()), list[SettingsError]()
    yield from _outcome(check_readers, path, file.stat().st_mode)
    text = read_accounts(account_bytes(path), path, errors.append)
    for error in errors:
        where = _LINE.match(str(error).removeprefix(f"{path}, "))
        line = int(where[1]) if where else None
        yield CheckedRow(KeyVerdict.REFUSED, where[2] if where else str(error), line=line)
    yield from _outcome(accounts_by_name, [text])
    if not text.accounts and not errors:
        yield CheckedRow(
            KeyVerdict.REFUSED,
            "the file has no account, so no client could send requests; add one",
        )
    if text.white:
        yield CheckedRow(KeyVerdict.DIFFERS, _WHITE, "globalWhiteRemoteAddresses")
    for place, account in text.accounts:
        rights = "admin" if account.is_super else ""
        yield CheckedRow(KeyVerdict.USED, rights, "accessKey", account.name, place.line)
        if account.white is not None:
            yield CheckedRow(KeyVerdict.DIFFERS, _WHITE, "whiteRemoteAddress", None, place.line)
        for each in _outcome(check_migration, account):
            yield CheckedRow(
                KeyVerdict.DOUBTFUL, f"with migrateAuthFromV1Enabled=true the start fails: {each.text}",
                "accessKey", account.name, place.line,
            )  # fmt: skip


def _check_tools(file: Path, _content: bytes) -> Iterator[CheckedRow]:
    yield from _outcome(check_secrecy, file)
    for key, value in read_tools(file).items():
        if key in KEYS:
            yield CheckedRow(KeyVerdict.USED, "", key, value if key == "accessKey" else HIDDEN)
        else:
            yield CheckedRow(KeyVerdict.UNKNOWN, f"the file has {', '.join(KEYS)}", key)


def _check_proxy(file: Path, _content: bytes) -> Iterator[CheckedRow]:
    from cometmq.proxy.cluster.settings import UNSUPPORTED_KEYS, ProxySettings, layers_of

    layers = layers_of(str(file), os.environ)
    yield from _outcome(lambda: check_secret_files(ProxySettings, layers))
    reading = judge_keys(ProxySettings, layers, UNSUPPORTED_KEYS)
    for each in reading.judged:
        yield CheckedRow(each.verdict, each.why, each.key, each.text)
    settings = ProxySettings(**reading.values)
    yield from _outcome(settings.check_access)
    addresses = settings.nameservers.split(";")
    yield from _unresolved(f"namesrvAddr={settings.nameservers}", addresses)
    host = listening_host(settings.bind_address, container_with_own_network())
    if settings.grpc_port:  # Another proxy may share it.
        claim = PortClaim("grpcServerPort", host, settings.grpc_port, is_needed=False)
        yield from _of_ports([claim])


# By name, how each kind of file is checked.
KINDS: Mapping[str, Callable[[Path, bytes], Iterator[CheckedRow]]] = {
    "broker": _check_broker,
    "nameserver": _check_nameserver,
    "accounts": _check_accounts,
    "tools": _check_tools,
    "proxy": _check_proxy,
}
