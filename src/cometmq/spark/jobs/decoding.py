"""Bodies as typed columns, and the reason where a body is none.

JSON and CSV are Spark's own; Avro and Protobuf are read by their Python libraries (docs/design/0035).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pyspark.errors import ParseException
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, NullType, StringType, StructField, StructType

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.binary_bodies import BinaryForm, value_and_reason
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.options import JobOptions

BodyFormat = Literal["json", "csv", "avro", "protobuf"]

_CORRUPT = "_corrupt"
_SHOWN_MAX = 60  # characters of a wrong value in a reason


@dataclass(frozen=True, kw_only=True)
class BodyOptions(JobOptions):
    """Options for the content of bodies.

    Attributes:
        format: how they are written.
        schema: columns like "id BIGINT, name STRING", or a file: with such a text, with a schema
            of Spark as JSON, an Avro schema, or a Protobuf descriptor.
        message: the name of the Protobuf message.
        separator: of CSV.
    """

    format: BodyFormat = option("What bodies hold.", "json")
    schema: str = option(
        "Columns, 'id BIGINT, name STRING', or a file: such a text, Avro schema, descriptor.",
        is_what=False,
    )
    message: str = option("The Protobuf message's name.", "")
    separator: str = option("What stands between the values of CSV.", ",")


class DecodedBody(NamedTuple):
    """A body, decoded.

    Attributes:
        value: a struct with the columns.
        names: their names.
        reason: why the body does not fit; null where it does.
    """

    value: Column
    names: list[str]
    reason: Column


def decoded(options: BodyOptions, body: Column) -> DecodedBody:
    """Decode a column of bodies.

    Raises:
        SettingsError: a schema that is none.
    """
    if options.format in ("avro", "protobuf"):
        return _by_library(options, body)
    return _by_text(options, body, schema_of(options.schema))


def schema_of(given: str) -> StructType:
    """Read a schema from text, or from the file that holds it.

    Raises:
        SettingsError: it is none.
    """
    text = _content(given)
    columns: DataType
    try:
        if text.lstrip().startswith("{"):
            columns = StructType.fromJson(json.loads(text))
        else:
            columns = StructType.fromDDL(text)
    except (ParseException, ValueError, KeyError, TypeError, AttributeError):
        columns = NullType()
    # A lone type, "int", has no column's name.
    if not isinstance(columns, StructType):
        raise SettingsError(
            f"--schema {given!r} is neither a file nor columns like 'id BIGINT, name STRING'"
        )
    return columns


def _content(given: str) -> str:
    """The text of a file, or what was given where that is none.

    Raises:
        SettingsError: the file holds no text.
    """
    path = Path(given)
    if len(given) >= 255 or not path.is_file():
        return given
    try:
        return path.read_text()
    except UnicodeDecodeError:
        raise SettingsError(
            f"--schema {given} holds no text; a Protobuf descriptor goes with --format protobuf"
        ) from None


def _by_text(options: BodyOptions, body: Column, schema: StructType) -> DecodedBody:
    """JSON or CSV: read twice, typed and as text; a typed null that has a text is wrong."""
    text = body.cast("string")
    is_json = options.format == "json"
    asked = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    if not is_json:
        if not options.separator:
            raise SettingsError("--separator is empty: say what stands between the values")
        asked["sep"] = options.separator

    def parsed(fields: list[StructField]) -> Column:
        whole = StructType([*fields, StructField(_CORRUPT, StringType())])
        if is_json:
            return f.from_json(text, whole, asked)
        return f.from_csv(text, ", ".join(_ddl(each) for each in whole.fields), asked)

    typed = parsed(schema.fields)
    loose = parsed([StructField(each.name, StringType()) for each in schema.fields])
    wrong = [
        f.when(
            loose[each.name].isNotNull() & typed[each.name].isNull(),
            f.concat(
                f.lit(f"{each.name}: "),
                f.substring(loose[each.name], 1, _SHOWN_MAX),
                f.lit(f" is no {each.dataType.simpleString()}"),
            ),
        )
        for each in schema.fields
    ]
    no_form = f.try_parse_json(text).isNull() if is_json else f.lit(False)  # noqa: FBT003
    reason = (
        f.when(f.length(body) == 0, f.lit("an empty body"))
        .when(typed.isNotNull() & typed[_CORRUPT].isNull(), f.lit(None))
        .when(no_form, f.lit("no JSON"))
        .otherwise(_or_else(f.concat_ws("; ", *wrong), f"does not fit: {options.format}"))
    )
    return DecodedBody(typed, schema.fieldNames(), reason)


def _ddl(field: StructField) -> str:
    return f"`{field.name}` {field.dataType.simpleString()}"


def _or_else(text: Column, other: str) -> Column:
    return f.when(text == "", f.lit(other)).otherwise(text)


def _by_library(options: BodyOptions, body: Column) -> DecodedBody:
    """Avro or Protobuf: what a library reads, or its reason."""
    form = _form_of(options)
    both = value_and_reason(form, body)
    return DecodedBody(both["value"], form.columns.fieldNames(), both["reason"])


def _form_of(options: BodyOptions) -> BinaryForm:
    # Their libraries are imported by who needs them.
    if options.format == "avro":
        from cometmq.spark.jobs.avro_bodies import AvroBodies

        return AvroBodies.of(_content(options.schema))
    from cometmq.spark.jobs.protobuf_bodies import ProtobufBodies

    return ProtobufBodies.of(options.schema, options.message)
