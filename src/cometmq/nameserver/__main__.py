"""`python -m cometmq.nameserver -c namesrv.conf`: the command line of one nameserver.

Next: cometmq.nameserver.program
"""

import sys
from typing import Annotated

import typer

from cometmq.model.errors import CometError
from cometmq.model.exit_status import status_of
from cometmq.nameserver.program import run_nameserver

# Unknown options are the settings' own flags.
_SETTINGS_AS_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command(context_settings=_SETTINGS_AS_FLAGS)
def nameserver(
    context: typer.Context,
    *,
    conf: Annotated[
        str | None, typer.Option("-c", "--configFile", help="A namesrv.conf, as Java reads it.")
    ] = None,
    prints_settings: Annotated[
        bool, typer.Option("-p", "--printConfigItem", help="Print all settings and end.")
    ] = False,
) -> None:
    """Run a nameserver. Every setting is a flag, too: --listen-port 0 is listenPort=0."""
    run_nameserver(conf, context.args, prints_settings=prints_settings)


def main() -> None:
    """Run the nameserver; a failure is one line and a status of `model.exit_status`."""
    try:
        app()
    except (CometError, OSError) as error:
        sys.stderr.write(f"nameserver: {error}\n")
        sys.exit(status_of(error))


if __name__ == "__main__":
    main()
