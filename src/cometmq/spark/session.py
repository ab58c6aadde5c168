"""Local Spark session with defaults for one machine: finds Java, listens on loopback, and logs only errors.

Users can override the defaults. For your own cluster, create the session as usual and call `register`.
"""

import atexit
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from cometmq.spark.java import java_home, java_options
from cometmq.spark.register import register

_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Loopback only: no other machine needs to connect to a local session.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.python.filterPushdown.enabled": "true",
    # Over TCP every Python task waits 40 ms for its input, because the JVM's second small write waits for the
    # acknowledgement of the first (docs/spark/tuning.md).
    "spark.python.unix.domain.socket.enabled": "true",
}

# PySpark takes the JVM's arguments from this variable; a value set by the user replaces ours.
SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"

# Local masters that SparkContext accepts: local, local[2], local[*], local[2, 4].
_LOCAL = re.compile(r"local(?:\[\s*(?P<threads>\d+|\*)\s*(?:,\s*\d+\s*)?\])?")

_LOGGING = """\
rootLogger.level = error
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def session(
    app_name: str = "cometmq",
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Create a local Spark session, or take the running one, and return it with the formats of CometMQ registered.

    Args:
        app_name: Application name in Spark.
        master: Local Spark master. `local[2]` runs two threads on this machine, with two shuffle partitions per thread.
        conf: Spark settings; they override the defaults set here. A running session takes over only some of them.

    Raises:
        SettingsError: No suitable Java was found.
    """
    # Spark's planner and workers must use this Python, which has pyarrow and CometMQ installed.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    builder = SparkSession.builder.appName(app_name).master(master)
    chosen = _CONF | _shuffle_conf(master) | {**(conf or {})}
    for name, value in chosen.items():
        builder = builder.config(name, value)
    folder = Path(tempfile.mkdtemp(prefix="cometmq-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with _environment(_java_options(home, folder) | _python_options(master, folder)):
        return register(builder.getOrCreate())


def _shuffle_conf(master: str) -> dict[str, str]:
    """Return the setting, a dict, for two shuffle partitions per thread of a local master; empty for a cluster.

    With Spark's default of 200, meant for clusters, each micro-batch of a stateful query starts 200 tasks and opens at least
    as many state stores, and the checkpoint fixes the number for the lifetime of the query.
    """
    local = _LOCAL.fullmatch(master)
    if local is None:
        return {}
    threads = local["threads"] or "1"
    count = (os.cpu_count() or 1) if threads == "*" else int(threads)
    return {"spark.sql.shuffle.partitions": str(max(2, 2 * count))}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables while the context is open, then restore them: later programs must not inherit them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _java_options(home: Path, folder: Path) -> dict[str, str]:
    """Write the log4j file, and return the variable with the JVM options as a dict; only return {} if the user has set it."""
    if os.environ.get(SUBMIT_ARGS):
        return {}
    options = [_quiet_start(folder), *java_options(home)]
    java = shlex.quote(" ".join(f'"{each}"' for each in options))
    return {SUBMIT_ARGS: f"--driver-java-options {java} pyspark-shell"}


def _python_options(master: str, folder: Path) -> dict[str, str]:
    """Return the variables that name the JVM's Python; empty if the master is not local or the user chose another Python."""
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    if not master.startswith("local") or any(
        os.environ[each] != sys.executable for each in names
    ):
        return {}
    return dict.fromkeys(names, unzipped_python(folder))


def _quiet_start(folder: Path) -> str:
    """Write the log4j configuration file into a folder, and return the JVM option that names it."""
    settings = folder / "log4j2.properties"
    settings.write_text(_LOGGING)
    return f"-Dlog4j2.configurationFile={settings.as_uri()}"


_SCRIPT = """\
#!/bin/sh
zips={zips}
while [ "${{PYTHONPATH#*"$zips"}}" != "$PYTHONPATH" ]; do
  PYTHONPATH="${{PYTHONPATH%%"$zips"*}}${{PYTHONPATH#*"$zips"}}"
done
exec {python} "$@"
"""


def unzipped_python(folder: Path) -> str:
    """Write a script into `folder` that runs this Python without PySpark's zips in PYTHONPATH, and return its path.

    Spark puts `pyspark.zip` first in the PYTHONPATH of each Python that it starts. Python caches no bytecode of modules
    in a zip, so each process compiles PySpark again: 0.5 s, and the first query over a Python source waits for four
    processes in sequence (docs/spark/tuning.md). The same files are installed next to the zip as a package.

    Returns this Python's own path if the zips are not found, the system is not POSIX, or scripts in `folder` cannot run.
    The script removes only the exact text that Spark's PythonUtils.sparkPythonPath adds.
    """
    library = Path(pyspark.__file__).parent / "python" / "lib"
    zips = [*library.glob("pyspark.zip"), *library.glob("py4j-*-src.zip")]
    if len(zips) != 2 or os.name != "posix":
        return sys.executable
    script = folder / "python"
    told = "".join(f"{path}{os.pathsep}" for path in zips)
    script.write_text(
        _SCRIPT.format(zips=shlex.quote(told), python=shlex.quote(sys.executable))
    )
    script.chmod(0o700)
    # The file system of temporary files may be mounted without permission to execute.
    return str(script) if os.access(script, os.X_OK) else sys.executable
