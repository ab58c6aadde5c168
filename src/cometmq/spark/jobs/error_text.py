"""One line for people of why a job failed: Spark's own errors are pages of text."""

import re

from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

from cometmq.model.errors import SettingsError

# The last line of a Python traceback that Spark carries in its own error's text.
_OURS = re.compile(r"^cometmq\.[\w.]+\.(?P<kind>\w+): (?P<text>.*)$", re.MULTILINE)
_PYTHONS = re.compile(
    r"^(?:[\w.]+\.)?(?P<kind>\w+(?:Error|Exception)): (?P<text>.*)$", re.MULTILINE
)
# SQL and settings that Spark cannot make sense of, before a task runs.
_WRONG_USE = (AnalysisException, IllegalArgumentException)
_NO_JAVA = "JAVA_GATEWAY_EXITED"
# Of a place that Hadoop knows by name and has no jar for.
_NO_FILE_SYSTEM = re.compile(
    r"Class (\S+FileSystem) not found|No FileSystem for scheme|CANNOT_LOAD_CHECKPOINT_FILE_MANAGER"
)
# Behind a condition's text stand its SQLSTATE, the place in the SQL, and the whole plan.
_STATE = re.compile(r"\s*SQLSTATE: \w{5}.*", re.DOTALL)
# Py4J says first which of its objects it called.
_JAVA_CALL = re.compile(r"^An error occurred while calling \S+\.\n: (?:[\w.$]+: )?")
_JAVA_TRACE = re.compile(r"\n\s*(?:JVM stacktrace|at [\w.$]+\()", re.MULTILINE)


def message_of(error: BaseException) -> str:
    """The part of an error that a person must know: of Spark's long texts the line that says why."""
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
        return f"{text} Look with --log FILE why, and at JAVA_HOME"
    said = _JAVA_CALL.sub("", _JAVA_TRACE.split(text)[0])
    lines = _STATE.sub("", said).strip().splitlines()
    return " ".join(line.strip() for line in lines[:4] if line.strip())


def is_usage(error: BaseException) -> bool:
    """Whether wrong options are to blame, also where a worker of Spark noticed it."""
    if isinstance(error, _WRONG_USE) or _NO_FILE_SYSTEM.search(str(error)):
        return True
    found = _OURS.findall(str(error))
    return isinstance(error, SettingsError) or bool(found and found[-1][0] == "SettingsError")


def _condition_of(error: BaseException) -> str:
    """The name that Spark has for an error; empty where it is none of Spark's."""
    return (error.getCondition() or "") if isinstance(error, PySparkException) else ""
