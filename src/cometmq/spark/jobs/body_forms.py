"""Decoding of message bodies to typed columns: one function over Arrow arrays, run by Spark's tasks.

A form (`text_bodies`, `changes`, `avro_bodies`, `protobuf_bodies`) has columns and a function that decodes one body. A
body that cannot be decoded or stored in the columns gets a reason in place of a value; the others are not affected.
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
    """Raised for a body that does not fit its format and columns; its text becomes the reason that the user sees."""


class BodyForm(Protocol):
    """Format and columns of message bodies, with a function that decodes them; picklable."""

    @property
    def name(self) -> str:
        """Name of the format for users."""
        ...

    @property
    def columns(self) -> StructType:
        """Columns of a decoded body."""
        ...

    def reader(self) -> Reader:
        """Return a function that decodes a body to a dict of values; it may raise any exception of its library."""
        ...


def value_and_reason(form: BodyForm, body: Column) -> Column:
    """Return a column that decodes bodies: a struct of `value` (the form's columns) and `reason`, one of them null."""
    kind = StructType([StructField("value", form.columns), StructField("reason", StringType())])

    def read_all(bodies: pa.Array) -> pa.Array:
        return read_bodies(form, bodies)

    made: Any = arrow_udf  # Its type stubs do not accept the type hints above.
    # So that each body is decoded once: Spark would repeat a deterministic function for each use of its result.
    found: Column = made(read_all, kind).asNondeterministic()(body)
    return found


def read_bodies(form: BodyForm, bodies: pa.Array) -> pa.Array:
    """Decode bodies to structs of value and reason; one that does not fit the form has a reason but no value."""
    read, values, reasons = form.reader(), [], []
    for body in bodies.to_pylist():
        value, reason = None, None
        try:
            value = read(body)
        except Exception as error:  # noqa: BLE001  Any exception of a library, for bytes from any sender.
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
        text = f"not {form.name} of this schema ({said})"
    # A body may contain half of a surrogate pair, which a text column cannot store.
    return text[:_REASON_MAX].encode(errors="backslashreplace").decode()
