"""`cometmq pipeline JOB`: the Spark jobs, each a command generated from its options.

Spark is imported only when the command is used. spark-submit can run this file, too:

    spark-submit --master spark://… src/cometmq/cli/pipeline.py stats --topic orders
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.main import get_command

from cometmq.cli.options import hide_flag_types, keyword, read_pairs
from cometmq.cli.output import notes, print_error, print_json, print_table, screen
from cometmq.model.errors import CometError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cometmq.spark.jobs.job import Job, Report

MASTER_DEFAULT = "local[*]"
_HELP = ["-h", "--help"]
_NAMES = {"nameserver": ("--nameserver", "-n")}
_VARIABLES = {"nameserver": "NAMESRV_ADDR"}
_GATEWAY = "PYSPARK_GATEWAY_PORT"  # Set by spark-submit: the port of its JVM.


def pipeline(context: typer.Context) -> None:
    """Process many messages with Spark: statistics, replays, tables, mirrors, archives."""
    main(context.args)


def main(arguments: list[str] | None = None) -> None:
    """Run the job that the arguments name; its exit status becomes that of the process."""
    # SIGTERM ends a run as Ctrl-C does, so that the manifest records the end.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = sys.argv[1:] if arguments is None else arguments
    command = get_command(application(*given[:1]))
    hide_flag_types(command, typer.Context(command, help_option_names=_HELP))
    command(args=given, prog_name="cometmq pipeline")


def application(word: str = "") -> typer.Typer:
    """Return a command line with the jobs whose names have `word` as first word, or all jobs if none has.

    Raises CometError, which says how to install it, if PySpark or a package of the jobs is missing.
    """
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ModuleNotFoundError as error:
        raise CometError(
            f"cometmq pipeline needs {error.name}, which is not installed; run pip install 'cometmq[spark]'"
        ) from None
    from cometmq.spark.jobs.catalogue import jobs_of

    app = _group(
        "Process many messages with Spark. Exit status: 0 success, 1 findings, 2 wrong usage, 3 failure. There is no "
        "--timeout: a job retries unreachable brokers, for 30 s when it reads and for 2 minutes when it sends."
    )
    # Without a callback Typer makes an app of a single job a command without a name.
    app.callback()(lambda: None)
    families: dict[str, typer.Typer] = {}
    for job in jobs_of(word):
        family, _, name = job.name.rpartition(" ")
        if family and family not in families:
            families[family] = _group(f"Jobs of {family}.")
            app.add_typer(families[family], name=family)
        families.get(family, app).command(name, help=job.help)(_command(job))
    return app


def _group(text: str) -> typer.Typer:
    return typer.Typer(
        help=text,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": _HELP},
    )


def _command(job: Job[Any]) -> Callable[..., None]:
    """Return a command for a job: a function with the job's options and the common Spark options as parameters."""

    def command(**given: Any) -> None:
        master, as_json, log = (given.pop(name) for name in ("master", "json", "log"))
        conf = read_pairs(given.pop("conf") or [], option="--conf")
        with _statuses():
            with _spark(job.name, master, conf, log) as spark:
                report = job.run(spark, job.options(**given))
            _show(report, as_json=as_json)
            raise typer.Exit(report.status)

    hints = get_type_hints(job.options)
    fields = [_parameter(each, hints[each.name]) for each in dataclasses.fields(job.options)]
    named = {each.name: each for each in (*fields, *_EVERYWHERE)}
    command.__signature__ = inspect.Signature(list(named.values()))  # type: ignore[attr-defined]
    command.__annotations__ = {}
    return command


def _parameter(field: dataclasses.Field[Any], kind: Any) -> inspect.Parameter:
    is_needed = field.default is dataclasses.MISSING
    default = inspect.Parameter.empty if is_needed else field.default
    text = field.metadata["help"]
    if field.metadata["is_argument"]:
        said: Any = typer.Argument(help=text)
    else:
        names = _NAMES.get(field.name, (f"--{field.name.replace('_', '-')}",))
        said = typer.Option(*names, help=text, envvar=_VARIABLES.get(field.name))
    return keyword(field.name, Annotated[kind, said], default)


_EVERYWHERE = (
    keyword(
        "master",
        Annotated[str, typer.Option(help="Spark master: local[2], spark://host:7077, yarn …")],
        MASTER_DEFAULT,
    ),
    keyword(
        "conf",
        Annotated[
            list[str] | None,
            typer.Option(metavar="KEY=VALUE", help="A Spark setting; may be repeated."),
        ],
        None,
    ),
    keyword(
        "log",
        Annotated[
            Path, typer.Option(help="File for the log of Spark, with stack traces of errors.")
        ],
        Path(os.devnull),
    ),
    keyword(
        "json", Annotated[bool, typer.Option("--json", help="Print the report as JSON.")], False
    ),
)


@contextmanager
def _spark(
    name: str, master: str, conf: Mapping[str, str], log: Path
) -> Iterator[SparkSession]:
    """Provide a Spark session at the requested master; under spark-submit use the session that it configures.

    Raises SettingsError if the master is a server of Spark Connect, or if for a local one no suitable Java is found.
    """
    from pyspark.sql import SparkSession

    from cometmq.model.errors import SettingsError
    from cometmq.spark import register, session

    if master.startswith("sc://"):
        raise SettingsError(
            f"--master {master}: a command cannot use Spark Connect, because it has its own driver; call the job "
            "from Python with your session, or use local[*] or spark://host:7077"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local") and _GATEWAY not in os.environ:
        # Its JVM ends with this process; `stop` would only wait half a second for a thread.
        with _error_output(log):
            spark = session(f"cometmq {name}", master=master, conf=conf)
        yield spark
        return
    builder = SparkSession.builder.appName(f"cometmq {name}")
    if _GATEWAY not in os.environ:
        builder = builder.master(master)
    for key, value in conf.items():
        builder = builder.config(key, value)
    with _error_output(log):
        spark = register(builder.getOrCreate())
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _error_output(log: Path) -> Iterator[None]:
    """Redirect stderr to a file meanwhile, also for programs started then, such as Java and its Python workers.

    Most of their errors also arrive as exceptions, which are printed as one line.
    """
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _statuses() -> Iterator[None]:
    """Turn failures into one line on stderr, or a traceback for a bug, and an exit status."""
    from py4j.protocol import Py4JError
    from pyarrow import ArrowException
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    from cometmq.model.exit_status import ExitStatus
    from cometmq.spark.jobs.error_text import is_usage, message_of

    # These loggers' messages also arrive as exceptions.
    for kind in ("SQL", "DataFrame"):
        PySparkLogger.getLogger(f"{kind}QueryContextLogger").disabled = True
    try:
        yield
    except (CometError, PySparkException, Py4JError, ArrowException, OSError) as error:
        print_error(message_of(error))
        raise typer.Exit(
            ExitStatus.WRONG_USE if is_usage(error) else ExitStatus.FAILED
        ) from None
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        print_error("interrupted; run the same command again to continue")
        raise typer.Exit(ExitStatus.FAILED) from None
    except Exception:  # noqa: BLE001  A bug: 1, Python's status for it, would mean findings.
        traceback.print_exc()
        raise typer.Exit(ExitStatus.FAILED) from None


def _show(report: Report, *, as_json: bool) -> None:
    if as_json:
        rows = [dict(zip(report.columns, row, strict=True)) for row in report.rows]
        print_json({**dataclasses.asdict(report), "rows": _plain(rows)})
        return
    if report.rows:
        print_table(report.columns, report.rows)
    for line in (*report.notes, *report.findings):
        notes().print(line, markup=False)
    screen().print(report.summary)


def _plain(value: Any) -> Any:
    """Convert a value of Spark for `print_json`: bytes (invalid UTF-8 replaced) and unsupported types become text."""
    match value:
        case bytes() | bytearray():
            return value.decode(errors="replace")
        case tuple() if hasattr(value, "asDict"):  # A Row, in a column.
            return _plain(value.asDict())
        case dict():
            return {str(_plain(name)): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case None | bool() | int() | float() | str() | date():
            return value
    return str(value)


if __name__ == "__main__":
    main()
