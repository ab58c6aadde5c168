"""`cometmq`: puts the commands together and turns every error into one line."""

import contextlib
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from cometmq.cli.command_table import TABLE
from cometmq.cli.credentials import sign_with
from cometmq.cli.output import print_error
from cometmq.cli.patience import SECONDS_DEFAULT, SECONDS_MAX, VARIABLE, wait_for_answers
from cometmq.model.errors import CometError, RequestTimeout
from cometmq.model.exit_status import ExitStatus, status_of


class Commands(TyperGroup):
    """All commands, each of which ends with a status of the one table, whatever happens in it.

    A command is imported when it is asked for: `cometmq cluster list` does not wait for the others.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all."""
        return list(TABLE)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None where there is none."""
        if cmd_name not in self.commands and cmd_name in TABLE:
            part = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
            part.callback()(_nothing)  # Without it, one command alone would be no group.
            TABLE[cmd_name](part)
            self.commands.update(get_group(part).commands)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name, or an error that says which name comes near."""
        if args[0] not in TABLE:
            for name in TABLE:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

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
        except (
            typer.Abort
        ):  # A question was answered with no, or by nobody; 1 would mean findings.
            print_error("nothing was done")
            raise typer.Exit(ExitStatus.FAILED) from None
        except Exception as error:
            if hasattr(error, "exit_code"):
                raise  # Typer's own: an end, or wrong arguments.
            traceback.print_exc()  # A bug: 1, Python's status for it, would mean findings.
            raise typer.Exit(ExitStatus.FAILED) from None


def _nothing() -> None:
    """Stand before commands."""


def _said(error: BaseException) -> str:
    """An error in one line, with the file that it is about."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, RequestTimeout):
        return f"{error}; who is only busy answers later: cometmq --timeout SECONDS ... waits longer"
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
    timeout: Annotated[
        float,
        typer.Option(
            envvar=VARIABLE,
            min=0.1,
            max=SECONDS_MAX,
            metavar="SECONDS",
            help="How long each answer of a server may take.",
        ),
    ] = SECONDS_DEFAULT,
) -> None:
    """Take the options that stand before every command."""
    wait_for_answers(timeout)
    if credentials is not None:
        sign_with(credentials)


def main() -> None:
    """Run the command that the arguments name; its exit status becomes the process's."""
    app()


if __name__ == "__main__":
    main()
