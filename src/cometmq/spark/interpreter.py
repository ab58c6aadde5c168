"""The Python that a local session's JVM starts: this one, without the copy of PySpark that is a zip.

Spark puts `pyspark.zip` before everything else in the PYTHONPATH of each Python that it starts. Python keeps no
bytecode of what lies in a zip, so each of them compiles PySpark anew: 0.5 s, and the first query over a Python
source waits for four, one after the other (docs/spark/tuning.md). The same files lie beside the zip as a package.
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
    """A program in a folder that runs this Python so; where there can be none, this Python.

    It goes by what Spark's PythonUtils.sparkPythonPath gives; what is different from that stays as it is.
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
    # Temporary files need not be programs: their file system can forbid it.
    return str(script) if os.access(script, os.X_OK) else sys.executable
