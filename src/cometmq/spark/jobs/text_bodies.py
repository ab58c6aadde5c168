"""JSON and CSV bodies: one JSON document or one CSV record, decoded by Python in the tasks.

Spark's `from_json` and `from_csv` change values: they round decimals, read milliseconds as seconds, add today's
date to a time without one, and ignore a second document. A number such as 1e20000000 in a column DECIMAL
keeps them busy for minutes (docs/design/0024-pipeline-jobs.md).
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as t

from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes
from cometmq.spark.jobs.body_forms import BodyMismatch, Reader
from cometmq.spark.jobs.text_values import (
    Convert,
    Number,
    WrongValue,
    carried,
    check_columns,
    converter,
)

_NOT_IN_CSV = (t.StructType, t.ArrayType, t.MapType, t.BinaryType, t.VariantType)
_BOOLEANS = {"true": True, "false": False}


def json_object(body: bytes) -> dict[str, Any]:
    """Parse a body that is one JSON object, with numbers as `Number`; BodyMismatch for others, and for a repeated name."""
    try:
        found = _DECODER.decode(body.decode())
    except UnicodeDecodeError:
        raise BodyMismatch("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        is_more = error.msg == "Extra data"
        raise BodyMismatch(
            "more text follows the JSON document" if is_more else "not JSON"
        ) from None
    except RecursionError:
        raise BodyMismatch("JSON that is nested too deeply") from None
    if not isinstance(found, dict):
        raise BodyMismatch("not a JSON object")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BodyMismatch(f"the name {in_quotes(twice, 60)} is twice in one object")
    return made


def _no_number(text: str) -> None:
    raise BodyMismatch(f"not JSON: {text} is not a number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_no_number
)


@dataclass(frozen=True)
class JsonBodies:
    """Decoder of bodies that are a JSON object each; raises SettingsError for column types that JSON cannot have."""

    schema: t.StructType
    name: str = "json"

    def __post_init__(self) -> None:
        check_columns(self.schema)

    @property
    def columns(self) -> t.StructType:
        """Columns that `reader` returns; `decoding.typed` converts them to the columns of the schema."""
        columns = carried(self.schema)
        assert isinstance(columns, t.StructType)
        return columns

    def reader(self) -> Reader:
        """Return a function that decodes a JSON body to a dict; BodyMismatch for an empty one, or one that does not fit."""
        convert = converter(self.schema)

        def read(body: bytes) -> dict[str, Any]:
            if not body:
                raise BodyMismatch("an empty body")
            return _converted(convert, json_object(body))

        return read


def _converted(convert: Convert, document: dict[str, Any]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = convert(document)
    except WrongValue as error:
        raise BodyMismatch(str(error)) from None
    return found


@dataclass(frozen=True)
class CsvBodies(JsonBodies):
    """Decoder of bodies that are one record of CSV each (RFC 4180); an empty value without quotes is null.

    Raises:
        SettingsError: A column has a type that CSV cannot have, or the separator is invalid.
    """

    name: str = "csv"
    separator: str = ","

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.separator or set(self.separator) & set('"\r\n'):
            raise SettingsError(
                f"--separator {in_quotes(self.separator)}: it must be the separator of the values, such as , or ;"
            )
        for each in self.schema.fields:
            if isinstance(each.dataType, _NOT_IN_CSV):
                raise SettingsError(
                    f"--schema: column {each.name} has type {each.dataType.simpleString()}, which CSV cannot "
                    "represent; make the column STRING"
                )

    def reader(self) -> Reader:
        """Return a function that decodes a CSV body to a dict; BodyMismatch for an empty one, or one that does not fit."""
        convert, fields = converter(self.schema), self.schema.fields
        apart = re.escape("\t" if self.separator == "\\t" else self.separator)
        value = re.compile(
            rf'(?:"((?:[^"]|"")*)"|((?!")(?:(?!{apart})[^\r\n])*))({apart}|\Z|\r?\n\Z)'
        )

        def read(body: bytes) -> dict[str, Any]:
            if not body:
                raise BodyMismatch("an empty body")
            try:
                values = _line(value, body.decode())
            except UnicodeDecodeError:
                raise BodyMismatch("not UTF-8 text") from None
            if len(values) != len(fields):
                raise BodyMismatch(f"{len(values)} values for {len(fields)} columns")
            document = {
                each.name: _of_text(each.dataType, found)
                for each, found in zip(fields, values, strict=True)
            }
            return _converted(convert, document)

        return read


def _line(value: re.Pattern[str], text: str) -> list[str | None]:
    """Split a record of CSV into its values, None for an empty one without quotes; raise BodyMismatch if malformed."""
    values: list[str | None] = []
    place, is_more = 0, True
    while is_more:
        found = value.match(text, place)
        if found is None:
            raise BodyMismatch("more than one line, or quotes within a value")
        quoted, bare, end = found.groups()
        values.append(bare or None if quoted is None else quoted.replace('""', '"'))
        place, is_more = found.end(), bool(end.strip("\r\n"))
    return values


def _of_text(kind: t.DataType, value: str | None) -> Any:
    """Return a CSV value as JSON would give it for a column of this type: a text, bool, `Number` or None."""
    if value is None or isinstance(
        kind, t.StringType | t.DateType | t.TimestampType | t.TimestampNTZType
    ):
        return value
    if isinstance(kind, t.BooleanType):
        return _BOOLEANS.get(value.lower(), value)
    return Number(value)
