"""Entry point of `cometmq`: loads commands, handles global options, and turns errors into messages and a status."""

import contextlib
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from cometmq.cli import complete, profile_files
from cometmq.cli.command_table import TABLE
from cometmq.cli.credentials import sign_with
from cometmq.cli.options import Version, hide_flag_types
from cometmq.cli.output import print_error
from cometmq.cli.patience import SECONDS_DEFAULT, SECONDS_MAX, VARIABLE, wait_for_answers
from cometmq.model.errors import CometError, RequestTimeout
from cometmq.model.exit_status import ExitStatus, status_of
from cometmq.model.text import as_utf8


class Commands(TyperGroup):
    """The group of all commands of `cometmq`; the errors of a command become exit statuses of `model.exit_status`.

    A command's modules are imported on first use: `cometmq cluster list` does not import all others.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the help page, without importing their modules."""
        return list(TABLE)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with this name, importing its modules; None if there is none."""
        if cmd_name not in self.commands and cmd_name in TABLE:
            part = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
            part.callback()(_nothing)  # Without it, a single command would not be a group.
            TABLE[cmd_name].add(part, cmd_name)
            self.commands[cmd_name] = loaded = get_group(part).commands[cmd_name]
            hide_flag_types(loaded, ctx)
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with the lines of the table, importing no command: the process ends after it."""
        hide_flag_types(self, ctx)
        self.commands = {
            name: TyperCommand(name, help=entry.help, rich_help_panel=entry.panel)
            for name, entry in TABLE.items()
        }
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and other arguments; for an unknown name raise an error that suggests similar ones."""
        if args[0] not in TABLE:
            for name in TABLE:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name; print errors, except wrong usage, and raise typer.Exit for them.

        Wrong usage is raised, as Typer prints it. A closed pipe, as of stdout, is no error: status 0.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output (such as head) has closed the pipe. Python would report it again at exit.
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
        ):  # The answer to a question was no, or stdin gave none; 1 would mean findings.
            print_error("nothing was done")
            raise typer.Exit(ExitStatus.FAILED) from None
        except Exception as error:
            if hasattr(error, "exit_code"):
                raise  # Typer's own: an exit, or wrong arguments.
            traceback.print_exc()  # A bug: 1, Python's status for it, would mean findings.
            raise typer.Exit(ExitStatus.FAILED) from None


def _nothing() -> None:
    """Do nothing; the callback that makes a Typer app with a single command a group."""


def _said(error: BaseException) -> str:
    """Return the text of an error; with the name of its file if it has one, and for a RequestTimeout with advice."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, RequestTimeout):
        return f"{error}; if the server is only busy, wait longer with cometmq --timeout SECONDS ..."
    return as_utf8(str(error))


app = typer.Typer(
    name="cometmq",
    cls=Commands,
    help="Apache RocketMQ as Python software: run servers, send and consume messages, administer clusters.",
    epilog="Start with `cometmq up`. Every command has --help.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


# They are no clients of a cluster: a profile must not send a server to another cluster's nameserver.
_WITHOUT_PROFILE = {"up", "nameserver", "broker", "config", "store", "profile"}


@app.callback()
def options(
    context: typer.Context,
    _version: Version = False,
    profile: Annotated[
        str | None,
        typer.Option(
            envvar=profile_files.VARIABLE,
            metavar="NAME",
            help="Profile of the cluster (cometmq profile), instead of variables such as NAMESRV_ADDR.",
            autocompletion=complete.profiles,
        ),
    ] = None,
    credentials: Annotated[
        Path | None,
        typer.Option(
            envvar="COMETMQ_CREDENTIALS",
            metavar="FILE",
            help="File with the accessKey and secretKey that sign requests, like mqadmin's tools.yml. Default: "
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
            help="Timeout for each answer of a server.",
        ),
    ] = SECONDS_DEFAULT,
) -> None:
    """Apply the global options: --timeout, --credentials, and for a command that is a client of a cluster --profile."""
    wait_for_answers(timeout)
    if context.invoked_subcommand not in _WITHOUT_PROFILE:
        profile_files.follow(profile)
    if credentials is not None:
        sign_with(credentials)


def main() -> None:
    """Run the command that the arguments name; its exit status becomes that of the process."""
    app()


if __name__ == "__main__":
    main()
