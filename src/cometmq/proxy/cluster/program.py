"""The gRPC proxy of a cluster as a program: settings, log, a line when ready, and a clean shutdown.

It keeps nothing that another process needs: several can listen on one port of a machine, and clients may go from one to
another at any time.
"""

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
from cometmq.net.loop import run
from cometmq.process.build import running_versions
from cometmq.process.descriptors import raise_limit
from cometmq.process.garbage import collect_seldom
from cometmq.process.log_file import ProgramLog, failed_start
from cometmq.process.program_log import UNCOUNTED
from cometmq.process.systemd import notify, ping_watchdog
from cometmq.proxy.cluster.settings import ProxySettings, read_proxy_settings
from cometmq.proxy.start import needs_extra

_log = logging.getLogger("cometmq.proxy")


def run_proxy(
    conf_file: str | None, arguments: Sequence[str] = (), *, prints_settings: bool = False
) -> int:
    """Run a proxy until SIGTERM or SIGINT, or print its settings; return the exit status.

    If it cannot start, the reason goes to stderr.

    Args:
        conf_file: Path of an `rmq-proxy.json`, or None.
        arguments: Settings as flags, `--grpc-server-port 0`.
        prints_settings: Only print the settings as properties.
    """
    log: ProgramLog | None = None
    try:
        if not prints_settings:
            log = ProgramLog(os.environ)
        settings, warnings = read_proxy_settings(conf_file, arguments, os.environ)
        if log is None:
            for warning in warnings:
                sys.stderr.write(f"warning: {as_utf8(warning)}\n")
            sys.stdout.write(encode_properties_text(settings_table(settings)).decode())
            return 0
        log.set_level(settings.log_level)
        _log.info("%s", running_versions())
        for warning in warnings:
            _log.warning("%s", as_utf8(warning), extra=UNCOUNTED)
        raise_limit()
        run(_serve(log, settings))
    except (CometError, OSError) as error:
        return failed_start("proxy", str(error), error, log)
    return 0


async def _serve(log: ProgramLog, settings: ProxySettings) -> None:
    with needs_extra("the proxy"):
        from cometmq.proxy.cluster.proxy import ClusterProxy
    began = time.monotonic()
    stopped = asyncio.Event()
    log.until_stopped(stopped.set)
    proxy = ClusterProxy(settings)
    await proxy.start()
    collect_seldom()
    _log.info("the proxy serves after %.1f s", time.monotonic() - began)
    # The text of RocketMQ's ProxyStartup, which scripts wait for.
    log.print(f"The proxy[{proxy.address}] startup successfully")
    pinging = asyncio.create_task(ping_watchdog(), name="proxy/watchdog")
    notify("READY=1")
    try:
        await stopped.wait()
    finally:
        notify("STOPPING=1")
        _log.info("the proxy stops")
        await proxy.close()
        pinging.cancel()
