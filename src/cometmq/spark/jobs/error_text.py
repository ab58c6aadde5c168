"""One line for people of why a job failed: Spark's own errors are pages of text.

Next: cometmq.spark.jobs.job
"""

import re

from pyspark.errors import PySparkException

from cometmq.model.errors import SettingsError

# The last line of a Python traceback that Spark carries in its own error's text.
_OURS = re.compile(r"^cometmq\.[\w.]+\.(?P<kind>\w+): (?P<text>.*)$", re.MULTILINE)
_PYTHONS = re.compile(
    r"^(?:[\w.]+\.)?(?P<kind>\w+(?:Error|Exception)): (?P<text>.*)$", re.MULTILINE
)
# Spark's conditions for SQL and settings that the user has misspelt.
_WRONG_USE = (
    "DATATYPE_MISMATCH", "INVALID_CONF_VALUE", "PARSE_SYNTAX_ERROR", "TABLE_OR_VIEW_NOT_FOUND",
    "UNRESOLVED_COLUMN",
)  # fmt: skip
_NO_JAVA = "JAVA_GATEWAY_EXITED"
# Behind a condition's text stand its SQLSTATE, the place in the SQL, and the whole plan.
_STATE = re.compile(r"\s*SQLSTATE: \w{5}.*", re.DOTALL)
_JAVA_TRACE = re.compile(r"\n\s*(?:JVM stacktrace|at [\w.$]+\()", re.MULTILINE)


def message_of(error: BaseException) -> str:
    """The part of an error that a person must know: of Spark's long texts the line that says why."""
    text = str(error) or type(error).__name__
    found = _OURS.findall(text) or _PYTHONS.findall(text)
    if found:
        return str(found[-1][1])
    if _condition_of(error) == _NO_JAVA:
        return f"{text} Look with --log FILE why, and at JAVA_HOME"
    lines = _STATE.sub("", _JAVA_TRACE.split(text)[0]).strip().splitlines()
    return " ".join(line.strip() for line in lines[:4] if line.strip())


def is_usage(error: BaseException) -> bool:
    """Whether wrong options are to blame, also where a worker of Spark noticed it."""
    if _condition_of(error).startswith(_WRONG_USE):
        return True
    found = _OURS.findall(str(error))
    return isinstance(error, SettingsError) or bool(found and found[-1][0] == "SettingsError")


def _condition_of(error: BaseException) -> str:
    """The name that Spark has for an error; empty where it is none of Spark's."""
    return (error.getCondition() or "") if isinstance(error, PySparkException) else ""
