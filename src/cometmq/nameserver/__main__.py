"""The command line of a nameserver: `python -m cometmq.nameserver -c namesrv.conf`."""

import argparse
import sys

from cometmq.nameserver.program import run_nameserver
from cometmq.process.build import version_line


def main() -> None:
    """Run the nameserver and exit with its status (`model.exit_status`); with --version or -p only print."""
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
    sys.exit(run_nameserver(options.configFile, flags, prints_settings=options.printConfigItem))


if __name__ == "__main__":
    main()
