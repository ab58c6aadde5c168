"""Bodies as typed columns: one function over Arrow arrays, run by the tasks.

A form (`text_bodies`, `changes`, `avro_bodies`, `protobuf_bodies`) is its columns and a function that reads one body. A
body that it cannot read, or whose values no column holds, has a reason in place of a value; it stops no other.
"""

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

Reader = Callable[[bytes], dict[str, Any]]

_REASON_MAX = 200  # characters


class BodyMismatch(ValueError):
    """A body that does not fit; the text says why, to the user."""


class BodyForm(Protocol):
    """A form of bodies; picklable."""

    @property
    def name(self) -> str:
        """The name that users give the format."""
        ...

    @property
    def columns(self) -> StructType:
        """The columns."""
        ...

    def reader(self) -> Reader:
        """A function that reads a body; it raises whatever its library raises."""
        ...


def value_and_reason(form: BodyForm, body: Column) -> Column:
    """A struct of `value`, with the form's columns, and `reason`; one of both is null."""
    kind = StructType([StructField("value", form.columns), StructField("reason", StringType())])

    def read_all(bodies: pa.Array) -> pa.Array:
        return read_bodies(form, bodies)

    made: Any = arrow_udf  # Its stubs do not know that the hints above say what it is.
    # Spark reads a body once: of a function that it takes for deterministic it makes a copy for each use.
    found: Column = made(read_all, kind).asNondeterministic()(body)
    return found


def read_bodies(form: BodyForm, bodies: pa.Array) -> pa.Array:
    """Each body as a struct of value and reason."""
    read, values, reasons = form.reader(), [], []
    for body in bodies.to_pylist():
        value, reason = None, None
        try:
            value = read(body)
        except Exception as error:  # noqa: BLE001  A library's, for bytes that anybody may have sent.
            reason = _reason(form, error)
        values.append(value)
        reasons.append(reason)
    (whole,) = to_arrow_schema(StructType([StructField("value", form.columns)]), timezone="UTC")
    try:
        column = pa.array(values, whole.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        for row, value in enumerate(values):
            try:
                pa.array([value], whole.type)
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                values[row], reasons[row] = None, _reason(form, error)
        column = pa.array(values, whole.type)
    return pa.StructArray.from_arrays(
        [column, pa.array(reasons, pa.string())], names=["value", "reason"]
    )


def _reason(form: BodyForm, error: Exception) -> str:
    if isinstance(error, BodyMismatch):
        text = str(error)
    else:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        text = f"no {form.name} of the schema ({said})"
    # A body may name half of a surrogate pair, which no column of text holds.
    return text[:_REASON_MAX].encode(errors="backslashreplace").decode()
