"""Python interpreter for the JVM of a local session: this one, with PySpark as a package instead of a zip.

Spark puts `pyspark.zip` first in the PYTHONPATH of each Python that it starts. Python caches no bytecode of modules
in a zip, so each process compiles PySpark again: 0.5 s, and the first query over a Python source waits for four
processes in sequence (docs/spark/tuning.md). The same files are installed next to the zip as a package.
"""

import os
import shlex
import sys
from pathlib import Path

import pyspark

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
