"""`cometmq`: puts the commands together and turns every error into one line.

Next: cometmq.cli.programs
"""

import contextlib
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cometmq.cli.cluster import cluster
from cometmq.cli.consume import consume
from cometmq.cli.credentials import sign_with
from cometmq.cli.delayed import delayed, recall
from cometmq.cli.expired import expired
from cometmq.cli.explain import conflicts, explain, transactions
from cometmq.cli.messages import messages
from cometmq.cli.output import print_error
from cometmq.cli.pipeline import PASSED_ON, pipeline
from cometmq.cli.programs import SETTINGS_AS_FLAGS, broker, nameserver, up
from cometmq.cli.send import send
from cometmq.cli.store import store
from cometmq.cli.store_files import archive_store, rebuild_store, restore_store
from cometmq.cli.tail import tail
from cometmq.cli.topics import topics
from cometmq.model.errors import CometError
from cometmq.model.exit_status import ExitStatus, status_of

PROGRAMS = "Programs"
MESSAGES = "Messages"
FILES = "Files"


class Commands(TyperGroup):
    """All commands, each of which ends with a status of the one table, whatever happens in it."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name.

        Raises:
            typer.Exit: with the status.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Whoever read our output (head, say) has enough. Python would complain once more at exit.
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(ExitStatus.WELL) from None
        except (CometError, OSError) as error:
            print_error(_said(error))
            raise typer.Exit(status_of(error)) from None
        except KeyboardInterrupt:
            print_error("interrupted")
            raise typer.Exit(ExitStatus.FAILED) from None
        except Exception as error:
            if isinstance(error, typer.Abort) or hasattr(error, "exit_code"):
                raise  # Typer's own: an end, or wrong arguments.
            traceback.print_exc()  # A bug: 1, Python's status for it, would mean findings.
            raise typer.Exit(ExitStatus.FAILED) from None


def _said(error: BaseException) -> str:
    """An error in one line, with the file that it is about."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


app = typer.Typer(
    name="cometmq",
    cls=Commands,
    help="Apache RocketMQ as Python software: run it, send, and see what is there.",
    epilog="Begin with `cometmq up`. Every command explains itself with --help.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(rich_help_panel=PROGRAMS)(up)
app.command(rich_help_panel=PROGRAMS, context_settings=SETTINGS_AS_FLAGS)(nameserver)
app.command(rich_help_panel=PROGRAMS, context_settings=SETTINGS_AS_FLAGS)(broker)
app.add_typer(cluster, name="cluster", rich_help_panel=PROGRAMS)
app.add_typer(topics, name="topic", rich_help_panel=MESSAGES)
messages.command("delayed")(delayed)
messages.command("recall")(recall)
app.add_typer(messages, name="message", rich_help_panel=MESSAGES)
app.command(rich_help_panel=MESSAGES)(send)
app.command(rich_help_panel=MESSAGES)(tail)
app.command(rich_help_panel=MESSAGES)(consume)
app.command(rich_help_panel=MESSAGES)(explain)
app.command(rich_help_panel=MESSAGES)(conflicts)
app.add_typer(transactions, name="transactions", rich_help_panel=MESSAGES)
store.command("expired")(expired)
store.command("rebuild")(rebuild_store)
store.command("archive")(archive_store)
store.command("restore")(restore_store)
app.add_typer(store, name="store", rich_help_panel=FILES)
app.command(rich_help_panel=MESSAGES, context_settings=PASSED_ON)(pipeline)


def print_version(is_wanted: bool) -> None:
    """`--version`."""
    if is_wanted:
        from importlib.metadata import version

        print(f"cometmq {version('cometmq')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    credentials: Annotated[
        Path | None,
        typer.Option(
            envvar="COMETMQ_CREDENTIALS",
            metavar="FILE",
            help="Sign requests with the accessKey and secretKey of this file, as mqadmin with its tools.yml; else with "
            "COMETMQ_ACCESS_KEY and COMETMQ_SECRET_KEY.",
        ),
    ] = None,
) -> None:
    """What stands before every command."""
    if credentials is not None:
        sign_with(credentials)


def main() -> None:
    """Run the command that the arguments name; its exit status becomes the process's."""
    app()


if __name__ == "__main__":
    main()
