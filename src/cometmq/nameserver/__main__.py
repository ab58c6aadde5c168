"""The command line of a nameserver: `python -m cometmq.nameserver -c namesrv.conf`."""

import argparse
import sys

from cometmq.model.errors import CometError
from cometmq.model.exit_status import status_of
from cometmq.model.text import as_utf8
from cometmq.nameserver.program import run_nameserver
from cometmq.process.build import version_line


def main() -> None:
    """Run the nameserver; print a CometError or OSError to stderr and exit with a status of `model.exit_status`."""
    parser = argparse.ArgumentParser(
        "python -m cometmq.nameserver",
        description="Run a nameserver. Every setting but secrets is also a flag: --listen-port 0 means listenPort=0.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "-c", "--configFile", help="configuration file in the format of Java's namesrv.conf"
    )
    parser.add_argument(
        "-p",
        "--printConfigItem",
        action="store_true",
        help="print all effective settings and exit",
    )
    parser.add_argument(
        "--version", action="store_true", help="print version, kernel and Python, and exit"
    )
    # Unknown arguments are flags of settings.
    options, flags = parser.parse_known_args()
    if options.version:  # argparse's own action would wrap the line.
        sys.stdout.write(f"{version_line()}\n")
        return
    try:
        run_nameserver(options.configFile, flags, prints_settings=options.printConfigItem)
    except (CometError, OSError) as error:
        sys.stderr.write(f"nameserver: {as_utf8(str(error))}\n")
        sys.exit(status_of(error))


if __name__ == "__main__":
    main()
