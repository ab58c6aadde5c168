"""The nameserver as a program: settings, log, a line when ready, and a clean shutdown."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Sequence

from cometmq.codec.java_properties import encode_properties_text
from cometmq.model.errors import CometError
from cometmq.model.settings import settings_table
from cometmq.model.text import as_utf8
from cometmq.nameserver.server import NameServer
from cometmq.nameserver.settings import NameServerSettings, read_nameserver_settings
from cometmq.nameserver.start_check import CHECKS
from cometmq.net.clock import SystemClock
from cometmq.net.loop import run
from cometmq.process.build import running_versions
from cometmq.process.descriptors import raise_limit
from cometmq.process.freed_memory import give_back_bursts
from cometmq.process.garbage import collect_seldom
from cometmq.process.log_file import ProgramLog, failed_start
from cometmq.process.program_log import UNCOUNTED
from cometmq.process.systemd import notify, ping_watchdog
from cometmq.store.conf_file import ConfFile

_log = logging.getLogger("cometmq.nameserver")

# Thread switch interval (s) while a thread decodes a registration; a request takes several, by default of 5 ms.
_SWITCH_SECONDS = 0.001


def run_nameserver(
    conf_file: str | None, arguments: Sequence[str] = (), *, prints_settings: bool = False
) -> int:
    """Run a nameserver until SIGTERM or SIGINT, or print its settings; return the exit status.

    If it cannot start, the reason goes to stderr.

    Args:
        conf_file: Path of a `namesrv.conf`, or None.
        arguments: Settings as flags, `--listen-port 0`.
        prints_settings: Only print the settings as properties.
    """
    log: ProgramLog | None = None
    try:
        if prints_settings:
            settings, _, warnings = read_nameserver_settings(conf_file, arguments, os.environ)
            for warning in warnings:
                sys.stderr.write(f"warning: {as_utf8(warning)}\n")
            for check in CHECKS:
                check(settings)
            sys.stdout.write(encode_properties_text(settings_table(settings)).decode())
            return 0
        log = ProgramLog(os.environ)
        settings, conf, warnings = read_nameserver_settings(conf_file, arguments, os.environ)
        log.set_level(settings.log_level)
        _log.info("%s", running_versions())
        _log.info("configuration: %s", conf.sources())
        for warning in warnings:
            _log.warning("%s", as_utf8(warning), extra=UNCOUNTED)
        sys.setswitchinterval(_SWITCH_SECONDS)
        raise_limit()
        run(_serve(log, settings, conf))
    except (CometError, OSError) as error:
        return failed_start("nameserver", str(error), error, log)
    return 0


async def _serve(log: ProgramLog, settings: NameServerSettings, conf: ConfFile) -> None:
    began = time.monotonic()
    stopped = asyncio.Event()
    log.until_stopped(stopped.set)
    server = NameServer(settings, SystemClock(), conf=conf)
    server.in_force.on_change.append(lambda: log.set_level(server.in_force.current.log_level))
    await server.start()
    collect_seldom()
    _log.info("the nameserver serves after %.1f s", time.monotonic() - began)
    # The text of NamesrvStartup, which scripts wait for.
    log.print(f"The Name Server boot success. serializeType=JSON, address {server.address}")
    giving_back = asyncio.create_task(give_back_bursts(), name="nameserver/freed-memory")
    pinging = asyncio.create_task(ping_watchdog(), name="nameserver/watchdog")
    notify("READY=1")
    try:
        await stopped.wait()
    finally:
        notify("STOPPING=1")
        _log.info("the nameserver stops")
        giving_back.cancel()
        await server.close()
        pinging.cancel()
