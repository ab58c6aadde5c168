"""`python -m cometmq.broker -c broker.conf [-n namesrv] [-p | -m | --version] [--listen-port N ...]`.

As RocketMQ's mqbroker it knows `-c` conf file, `-n` nameservers, `-p` print settings and exit, `-m` print those that
users usually set and exit; besides, `--version`, and for each setting but secrets a flag, which takes precedence over
the file. SIGTERM and SIGINT shut a started broker down cleanly.
"""

import asyncio
import contextlib
import logging
import os
import sys
import time
from typing import TYPE_CHECKING

from cometmq.broker.server import Broker
from cometmq.broker.settings.broker_settings import BrokerSettings, load_settings
from cometmq.broker.start_check import check_unstarted
from cometmq.kernel import WHY_PLAIN
from cometmq.model.address import is_loopback
from cometmq.model.errors import CometError
from cometmq.model.settings import settings_table
from cometmq.model.text import as_utf8
from cometmq.net.clock import SystemClock
from cometmq.net.loop import run
from cometmq.net.tasks import Tasks
from cometmq.process.build import running_versions, version_line
from cometmq.process.descriptors import raise_limit
from cometmq.process.freed_memory import give_back_bursts, keep_freed_memory
from cometmq.process.garbage import collect_seldom
from cometmq.process.huge_pages import join_as_it_grows
from cometmq.process.log_file import ProgramLog, failed_start
from cometmq.process.program_log import UNCOUNTED
from cometmq.process.systemd import notify, ping_watchdog
from cometmq.store.conf_file import ConfFile, conf_file
from cometmq.store.disk import failed, lack_of

if TYPE_CHECKING:
    from cometmq.proxy.server import ProxyServer

_PLAIN_KERNEL = (
    "the kernel is plain Python, so each message takes several times longer: {}; "
    "install the package again on a machine with a C compiler"
)
_log = logging.getLogger("cometmq.broker")

# The settings that `mqbroker -m` prints (fields with @ImportantField in RocketMQ).
_IMPORTANT = (
    "namesrvAddr", "brokerIP1", "brokerName", "brokerClusterName", "brokerId", "brokerRole",
    "autoCreateTopicEnable", "autoCreateSubscriptionGroup", "listenPort", "storePathRootDir",
    "flushDiskType", "brokerPermission", "defaultTopicQueueNums", "maxMessageSize",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run a broker until it is stopped, or print its settings (-p, -m) or version; return the exit status.

    If it cannot start, the reason goes to stderr.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--version" in words:
        sys.stdout.write(f"{version_line()}\n")
        return 0
    log: ProgramLog | None = None
    try:
        conf, flags, shown = _split(words)
        if shown is not None:
            settings, warnings = load_settings(conf, arguments=flags)
            for warning in warnings:
                sys.stderr.write(f"warning: {as_utf8(warning)}\n")
            check_unstarted(settings)
            _print_settings(settings, is_all=shown == "-p")
            return 0
        log = ProgramLog(os.environ)
        file = conf_file(BrokerSettings, conf, os.environ, flags)
        return _start(log, file, *load_settings(conf, arguments=flags))
    except OSError as error:
        why = str(error)
        if lack_of(error) is not None:
            why = f"{failed(error.filename or 'a file', error)}; free some, then start the broker again"
        return failed_start("broker", why, error, log)
    except CometError as error:
        return failed_start("broker", str(error), error, log)


def _split(words: list[str]) -> tuple[str | None, list[str], str | None]:
    """Return the path of the conf file or None, the flags of settings (-n becomes one), and -p or -m or None."""
    conf, shown = None, None
    flags: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if word in ("-p", "-m"):
            shown = word
        elif word in ("-c", "--configFile"):
            conf = next(waiting, None)
        elif word in ("-n", "--namesrvAddr"):
            flags += ["--namesrv-addr", next(waiting, "")]
        else:
            flags.append(word)
    return conf, flags, shown


def _print_settings(settings: BrokerSettings, *, is_all: bool) -> None:
    for name, value in settings_table(settings).items():
        if is_all or name in _IMPORTANT:
            sys.stdout.write(f"{name}={value}\n")


def _start(
    log: ProgramLog,
    conf: ConfFile,
    settings: BrokerSettings,
    warnings: list[str],
) -> int:
    """Log versions and warnings, then run a broker with these settings until it is stopped; return the exit status."""
    log.set_level(settings.log_level)
    _log.info("%s", running_versions())
    _log.info("configuration: %s", conf.sources())
    if WHY_PLAIN is not None:
        warnings.append(_PLAIN_KERNEL.format(WHY_PLAIN))
    for warning in warnings:
        _log.warning("%s", as_utf8(warning), extra=UNCOUNTED)
    keep_freed_memory()
    raise_limit()
    return run(_serve(log, settings, conf))


async def _serve(log: ProgramLog, settings: BrokerSettings, conf: ConfFile) -> int:
    began = time.monotonic()
    stop = asyncio.Event()
    log.until_stopped(stop.set)
    broker = Broker(settings, SystemClock(), conf=conf)
    broker.in_force.on_change.append(lambda: log.set_level(broker.settings.log_level))
    await broker.start()
    proxy = await _start_proxy(broker)
    if not is_loopback(broker.listen_host):
        _log.warning("LISTENING ON %s: %s", broker.listen_host, _who_may(broker))
    collect_seldom()
    _log.info("the broker serves after %.1f s", time.monotonic() - began)
    # The text of RocketMQ's BrokerStartup, which people and scripts wait for.
    log.print(
        f"The broker[{settings.broker_name}, {broker.address}] boot success. "
        f"serializeType=JSON and name server is {settings.nameservers or 'none'}"
    )
    memory = Tasks("memory")
    memory.spawn(give_back_bursts(), "freed-memory")
    memory.spawn(join_as_it_grows(), "huge-pages")
    pings = Tasks("systemd")
    pings.spawn(ping_watchdog(), "watchdog")
    notify("READY=1")
    with contextlib.suppress(asyncio.CancelledError):
        await stop.wait()
    notify("STOPPING=1")
    _log.info("the broker stops")
    await memory.close()
    if proxy is not None:
        await proxy.close()
    await broker.close()
    await pings.close()
    _log.info("the broker has stopped")
    return 0


async def _start_proxy(broker: Broker) -> "ProxyServer | None":
    """Start and return the broker's gRPC port, None if it has none; if that fails, close the broker and raise."""
    if not broker.settings.grpc_port:
        return None
    from cometmq.proxy.start import start_proxy

    try:
        return await start_proxy(broker)
    except BaseException:
        await broker.close()
        raise


def _who_may(broker: Broker) -> str:
    """Return a text for the log: which requests the broker accepts from clients on other machines."""
    if broker.settings.is_guarded:
        return "access control checks every client that reaches this address"
    administration = (
        "are accepted from this machine only"
        if broker.is_own_machine_trusted
        else "are refused, because access control is off and connections of other machines may look like local ones"
    )
    return (
        "every client that reaches this address may send and consume; administrative requests "
        f"{administration}"
    )


if __name__ == "__main__":
    sys.exit(main())
