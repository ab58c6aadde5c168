"""Conversion of JSON and CSV values to column values: exact, or refused; DOUBLE and FLOAT may round.

A number stays text until its column's type is known, so no digit is lost, and a large exponent
costs nothing. Times are passed to Spark as text, because only Spark knows the session's time zone.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isinf
from struct import pack, unpack
from typing import Any

from pyspark.sql import types as t

from cometmq.model.errors import SettingsError

Convert = Callable[[Any], Any]

_SHOWN_MAX = 60  # Maximum characters of a wrong value in a reason.
_BITS = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
_INTEGER = re.compile(r"[+-]?0*[0-9]{1,19}")
_NUMBER = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,9}))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Spark keeps microseconds, so further digits must be zeros.
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,6}0*)?)?)"
    r"\s?(Z|z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_DECIMAL_DIGITS_MAX = 38
_VARIANT_DEPTH_MAX = 200


class Number(str):
    """A JSON or CSV number as the text that the body has (a str), so that no digit is lost."""

    __slots__ = ()


class WrongValue(ValueError):
    """Raised for a value that its column cannot hold, with the path of the value and the problem."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem

    def within(self, step: str) -> "WrongValue":
        """Prepend a field name or "[index]" to the path of the wrong value, and return this error."""
        self.path = (
            f"{step}.{self.path}" if self.path[:1] not in ("", "[") else step + self.path
        )
        return self


def json_text(value: Any) -> str:
    """Convert a parsed value back to JSON text, with each number as the body has it."""
    if type(value) is Number:
        return str(value)
    if isinstance(value, dict):
        inside = ",".join(
            f"{json_text(str(name))}:{json_text(each)}" for name, each in value.items()
        )
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    return json.dumps(value, ensure_ascii=False)


# --- one value


def _wrong(value: object, kind: t.DataType) -> WrongValue:
    shown = value if isinstance(value, str) else json_text(value)
    return WrongValue(f"{shown[:_SHOWN_MAX]} cannot be read as {kind.simpleString()}")


def _integer(kind: t.DataType) -> Convert:
    end = 1 << (next(bits for each, bits in _BITS.items() if type(kind) is each) - 1)

    def convert(value: Any) -> int:
        if type(value) is Number and _INTEGER.fullmatch(value):
            number = int(value)
            if -end <= number < end:
                return number
        raise _wrong(value, kind)

    return convert


def _floating(kind: t.DataType) -> Convert:
    """Return a converter to DOUBLE or FLOAT, which may round; numbers without fraction and exponent must stay exact."""

    def convert(value: Any) -> float:
        found = _NUMBER.fullmatch(value) if type(value) is Number else None
        if found is None:
            raise _wrong(value, kind)
        _, whole, fraction, exponent = found.groups()
        number = float(value)
        if isinstance(kind, t.FloatType) and abs(number) < 3.4028235677973366e38:
            number = unpack("f", pack("f", number))[0]
        elif isinstance(kind, t.FloatType):
            raise _wrong(value, kind)
        is_lost = number == 0 and (whole + (fraction or "")).strip("0")
        is_other = fraction is exponent is None and not isinf(number) and int(value) != number
        if isinf(number) or is_lost or is_other:
            raise _wrong(value, kind)
        return number

    return convert


def _decimal(kind: t.DecimalType) -> Convert:
    """Return a converter of a number, or a text with a number as Debezium writes it, to DECIMAL without rounding."""

    def convert(value: Any) -> Decimal:
        found = _NUMBER.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise _wrong(value, kind)
        sign, whole, fraction, exponent = found.groups()
        digits = (whole + (fraction or "")).lstrip("0")
        scale = len(fraction or "") - int(exponent or 0)
        kept = digits.rstrip("0")
        scale -= len(digits) - len(kept)
        # Checked before a value is created, because a large exponent would create a huge one.
        if kept and (scale > kind.scale or len(kept) - scale > kind.precision - kind.scale):
            raise _wrong(value, kind)
        return Decimal(f"{sign}{kept}E{-scale}") if kept else Decimal(0)

    return convert


def _string(kind: t.DataType) -> Convert:
    """Return a converter to STRING: text as it is, other values as JSON text."""

    def convert(value: Any) -> str:
        text = str(value) if isinstance(value, str) else json_text(value)
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:  # Half of a surrogate pair.
                raise WrongValue("it has half a surrogate pair, which is not text") from None
        return text

    return convert


def _boolean(kind: t.DataType) -> Convert:
    def convert(value: Any) -> bool:
        if type(value) is not bool:
            raise _wrong(value, kind)
        return value

    return convert


def _binary(kind: t.DataType) -> Convert:
    def convert(value: Any) -> bytes:
        try:
            if type(value) is str:
                return b64decode(value, validate=True)
        except ValueError:
            pass
        raise _wrong(value, kind)

    return convert


def _date(kind: t.DataType) -> Convert:
    def convert(value: Any) -> date:
        try:
            if type(value) is str and _DATE.fullmatch(value):
                return date.fromisoformat(value)
        except ValueError:
            pass
        raise _wrong(value, kind)

    return convert


def _timestamp(kind: t.DataType) -> Convert:
    """Return a converter of a time to text that Spark casts; to TIMESTAMP, a time without zone is in the session's."""
    has_zone = isinstance(kind, t.TimestampType)

    def convert(value: Any) -> str:
        found = _TIME.fullmatch(value) if type(value) is str else None
        if type(value) is Number:
            raise WrongValue(
                f"{value[:_SHOWN_MAX]} is a number without a unit and cannot be read as {kind.simpleString()}: "
                "make the column BIGINT"
            )
        if found is None or (found[3] and not has_zone):
            raise _wrong(value, kind)
        day, time, zone = found.groups()
        zone = "+00:00" if zone in ("Z", "z") else zone or ""
        try:
            moment = datetime.fromisoformat(
                f"{day}T{(time or '00:00').replace(',', '.')[:15]}{zone}"
            )
            return (moment.astimezone(UTC) if zone else moment).isoformat()
        except (ValueError, OverflowError):
            raise _wrong(value, kind) from None

    return convert


def _variant(kind: t.DataType) -> Convert:
    """Return a converter to JSON text that Spark's `parse_json` reads without changes."""
    as_text = _string(kind)

    def convert(value: Any) -> Any:
        _check_variant(value, 0)
        return as_text(Number(json_text(value)))

    return convert


def _check_variant(value: Any, depth: int) -> None:
    if depth > _VARIANT_DEPTH_MAX:
        raise WrongValue(f"it has more than {_VARIANT_DEPTH_MAX} levels")
    if type(value) is Number:
        found = _NUMBER.fullmatch(value)
        is_exact = found is not None and (
            Decimal(repr(float(value))) == Decimal(value)
            if found[4]
            else len((found[2] + (found[3] or "")).lstrip("0")) <= _DECIMAL_DIGITS_MAX
        )
        if not is_exact:
            raise WrongValue(f"{value[:_SHOWN_MAX]} has more digits than a VARIANT can store")
    elif isinstance(value, dict):
        for each in value.values():
            _check_variant(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check_variant(each, depth + 1)


# --- columns of columns


def _struct(kind: t.StructType) -> Convert:
    fields = [(each.name, converter(each.dataType), each.nullable) for each in kind.fields]

    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _wrong(value, kind)
        made = {}
        for name, read, may_be_null in fields:
            found = value.get(name)
            if found is None and not may_be_null:
                raise WrongValue("it is missing, and the column is NOT NULL").within(name)
            try:
                made[name] = None if found is None else read(found)
            except WrongValue as error:
                raise error.within(name) from None
        return made

    return convert


def _array(kind: t.ArrayType) -> Convert:
    read = converter(kind.elementType)

    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _wrong(value, kind)
        made = []
        for place, each in enumerate(value):
            try:
                made.append(None if each is None else read(each))
            except WrongValue as error:
                raise error.within(f"[{place}]") from None
        return made

    return convert


def _map(kind: t.MapType) -> Convert:
    read, key = converter(kind.valueType), converter(kind.keyType)

    def convert(value: Any) -> list[tuple[Any, Any]]:
        if type(value) is not dict:
            raise _wrong(value, kind)
        made = []
        for name, each in value.items():
            try:
                made.append((key(name), None if each is None else read(each)))
            except WrongValue as error:
                raise error.within(name) from None
        return made

    return convert


_MAKERS: dict[type[t.DataType], Callable[[Any], Convert]] = {
    **dict.fromkeys(_BITS, _integer),
    t.DoubleType: _floating,
    t.FloatType: _floating,
    t.DecimalType: _decimal,
    t.StringType: _string,
    t.BooleanType: _boolean,
    t.BinaryType: _binary,
    t.DateType: _date,
    t.TimestampType: _timestamp,
    t.TimestampNTZType: _timestamp,
    t.VariantType: _variant,
    t.StructType: _struct,
    t.ArrayType: _array,
    t.MapType: _map,
}
_AS_TEXT = (t.TimestampType, t.TimestampNTZType, t.VariantType, t.StringType)


def converter(kind: t.DataType) -> Convert:
    """Return a function that converts a non-null JSON value to the type that `carried` returns, or raises WrongValue."""
    return _MAKERS[type(kind)](kind)


def check_columns(schema: t.StructType) -> None:
    """Raise SettingsError if a column has a type that is not supported for JSON, such as a VARIANT in another column."""
    for each in schema.fields:
        _check_type(each.name, each.dataType, is_top=True)


def _check_type(name: str, kind: t.DataType, *, is_top: bool = False) -> None:
    if isinstance(kind, t.StructType):
        for each in kind.fields:
            _check_type(f"{name}.{each.name}", each.dataType)
    elif isinstance(kind, t.ArrayType):
        _check_type(f"{name}[]", kind.elementType)
    elif isinstance(kind, t.MapType) and type(kind.keyType) is t.StringType:
        _check_type(f"{name}[]", kind.valueType)
    elif isinstance(kind, t.VariantType) and not is_top:
        raise SettingsError(
            f"--schema: {name} is a VARIANT inside another column: make the outer column VARIANT"
        )
    elif type(kind) not in _MAKERS or isinstance(kind, t.MapType):
        raise SettingsError(
            f"--schema: column {name} has type {kind.simpleString()}, which a text body cannot represent; make the "
            "column STRING"
        )


def carried(kind: t.DataType, *, times_as_text: bool = True) -> t.DataType:
    """Return the type of a column's values as `converter` returns them: nullable, with timestamps and variants as text.

    Without `times_as_text`, timestamps and variants keep their types.
    """
    if isinstance(kind, t.StructType):
        fields = [
            (each.name, carried(each.dataType, times_as_text=times_as_text)) for each in kind
        ]
        return t.StructType([t.StructField(*each) for each in fields])
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(carried(kind.elementType, times_as_text=times_as_text))
    if isinstance(kind, t.MapType):
        value = carried(kind.valueType, times_as_text=times_as_text)
        return t.MapType(kind.keyType, value)
    return t.StringType() if times_as_text and isinstance(kind, _AS_TEXT) else kind


def without_rules(schema: t.StructType) -> t.StructType:
    """Return a schema with all columns and their fields nullable, because a table does not keep NOT NULL."""
    columns = carried(schema, times_as_text=False)
    assert isinstance(columns, t.StructType)
    return columns
