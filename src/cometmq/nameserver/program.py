"""The nameserver as a program: settings, a line when ready, and a clean shutdown."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from cometmq.codec.java_properties import encode_properties_text
from cometmq.model.settings import settings_table
from cometmq.model.text import as_utf8
from cometmq.nameserver.server import NameServer
from cometmq.nameserver.settings import NameServerSettings, read_nameserver_settings
from cometmq.nameserver.start_check import CHECKS
from cometmq.net.clock import SystemClock
from cometmq.net.loop import run
from cometmq.process.descriptors import raise_limit
from cometmq.process.freed_memory import give_back_bursts
from cometmq.process.log_file import asked_log
from cometmq.process.program_log import set_up_log
from cometmq.store.conf_file import ConfFile

# Thread switch interval (s) while a thread decodes a registration; a request takes several, by default of 5 ms.
_SWITCH_SECONDS = 0.001


def run_nameserver(
    conf_file: str | None, arguments: Sequence[str] = (), *, prints_settings: bool = False
) -> None:
    """Run a nameserver until SIGTERM or SIGINT.

    Args:
        conf_file: Path of a `namesrv.conf`, or None.
        arguments: Settings as flags, `--listen-port 0`.
        prints_settings: Only print the settings as properties.

    Raises:
        SettingsError: A setting cannot be used.
        NetError: Listening failed, or the process may open too few files.
        CodecError, OSError: kvConfig.json cannot be read, or the users cannot be written.
    """
    settings, conf, warnings = read_nameserver_settings(conf_file, arguments, os.environ)
    for warning in warnings:
        sys.stderr.write(f"warning: {as_utf8(warning)}\n")
    if prints_settings:
        for check in CHECKS:
            check(settings)
        sys.stdout.write(encode_properties_text(settings_table(settings)).decode())
        return
    formatter, stream = asked_log(os.environ)
    set_up_log(formatter=formatter, stream=stream)
    sys.setswitchinterval(_SWITCH_SECONDS)
    raise_limit()
    run(_serve(settings, conf))


async def _serve(settings: NameServerSettings, conf: ConfFile) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = NameServer(settings, SystemClock(), conf=conf)
    await server.start()
    # The text of NamesrvStartup, which scripts wait for.
    sys.stdout.write(
        f"The Name Server boot success. serializeType=JSON, address {server.address}\n"
    )
    sys.stdout.flush()
    giving_back = asyncio.create_task(give_back_bursts(), name="nameserver/freed-memory")
    try:
        await stopped.wait()
    finally:
        giving_back.cancel()
        await server.close()
