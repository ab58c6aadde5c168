"""`python -m cometmq.nameserver -c namesrv.conf`: the command line of one nameserver."""

import argparse
import sys

from cometmq.model.errors import CometError
from cometmq.model.exit_status import status_of
from cometmq.nameserver.program import run_nameserver


def main() -> None:
    """Run the nameserver; a failure is one line and a status of `model.exit_status`."""
    parser = argparse.ArgumentParser(
        "python -m cometmq.nameserver",
        description="Run a nameserver. Every setting is a flag, too: --listen-port 0 is listenPort=0.",
        allow_abbrev=False,
    )
    parser.add_argument("-c", "--configFile", help="a namesrv.conf, as Java reads it")
    parser.add_argument(
        "-p", "--printConfigItem", action="store_true", help="print all settings and end"
    )
    # What it does not know are the settings' own flags.
    options, flags = parser.parse_known_args()
    try:
        run_nameserver(options.configFile, flags, prints_settings=options.printConfigItem)
    except (CometError, OSError) as error:
        sys.stderr.write(f"nameserver: {error}\n")
        sys.exit(status_of(error))


if __name__ == "__main__":
    main()
