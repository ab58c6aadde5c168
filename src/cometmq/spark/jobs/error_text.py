"""Short error messages for failed jobs; Spark's own errors are pages long."""

import re

from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

from cometmq.model.errors import SettingsError

# The last line of a Python traceback inside the text of a Spark error.
_OURS = re.compile(r"^cometmq\.[\w.]+\.(?P<kind>\w+): (?P<text>.*)$", re.MULTILINE)
_PYTHONS = re.compile(
    r"^(?:[\w.]+\.)?(?P<kind>\w+(?:Error|Exception)): (?P<text>.*)$", re.MULTILINE
)
# Raised by Spark for invalid SQL or settings, before a task runs.
_WRONG_USE = (AnalysisException, IllegalArgumentException)
_NO_JAVA = "JAVA_GATEWAY_EXITED"
# Errors for a URI scheme whose Hadoop jar is missing.
_NO_FILE_SYSTEM = re.compile(
    r"Class (\S+FileSystem) not found|No FileSystem for scheme|CANNOT_LOAD_CHECKPOINT_FILE_MANAGER"
)
# Spark appends the SQLSTATE, the position in the SQL and the whole plan to its message.
_STATE = re.compile(r"\s*SQLSTATE: \w{5}.*", re.DOTALL)
# Py4J's message starts with the object that it called.
_JAVA_CALL = re.compile(r"^An error occurred while calling \S+\.\n: (?:[\w.$]+: )?")
_JAVA_TRACE = re.compile(r"\n\s*(?:JVM stacktrace|at [\w.$]+\()", re.MULTILINE)


def message_of(error: BaseException) -> str:
    """Return the essential part of an error's text, usually on one line: of Spark's long texts, the cause."""
    text = str(error) or type(error).__name__
    found = _OURS.findall(text) or _PYTHONS.findall(text)
    if found:
        return str(found[-1][1])
    if missing := _NO_FILE_SYSTEM.search(text):
        return (
            f"Spark has no file system for this place ({missing[1] or missing[0]}): add its jars, as --conf "
            "spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION for s3://, VERSION being that of Spark's hadoop-client-api"
        )
    if _condition_of(error) == _NO_JAVA:
        return f"{text} Find the reason with --log FILE, and check JAVA_HOME"
    said = _JAVA_CALL.sub("", _JAVA_TRACE.split(text)[0])
    lines = _STATE.sub("", said).strip().splitlines()
    return " ".join(line.strip() for line in lines[:4] if line.strip())


def is_usage(error: BaseException) -> bool:
    """Return whether wrong options, SQL or a missing file system caused the error, even if a Spark worker raised it."""
    if isinstance(error, _WRONG_USE) or _NO_FILE_SYSTEM.search(str(error)):
        return True
    found = _OURS.findall(str(error))
    return isinstance(error, SettingsError) or bool(found and found[-1][0] == "SettingsError")


def _condition_of(error: BaseException) -> str:
    """Return the condition's name of a PySparkException; an empty text if it has none, or for another error."""
    return (error.getCondition() or "") if isinstance(error, PySparkException) else ""
