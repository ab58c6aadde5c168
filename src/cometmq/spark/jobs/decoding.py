"""Decoders of message bodies (JSON, CSV, Avro, Protobuf) chosen by a job's options, and casts of decoded columns."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.errors import ParseException
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, NullType, StructType, VariantType

from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes
from cometmq.spark.jobs.body_forms import BodyForm, value_and_reason
from cometmq.spark.jobs.options import JobOptions, option
from cometmq.spark.jobs.text_bodies import CsvBodies, JsonBodies
from cometmq.spark.jobs.text_values import without_rules

BodyFormat = Literal["json", "csv", "avro", "protobuf"]


@dataclass(frozen=True, kw_only=True)
class BodyOptions(JobOptions):
    """Options of jobs that decode message bodies.

    For JSON and CSV bodies, `schema` may also be a Spark schema as JSON text, or a file with one.
    """

    format: BodyFormat = option("Format of the bodies.", "json")
    schema: str = option(
        "Columns, such as 'id BIGINT, name STRING', or a file with columns, an Avro schema or a Protobuf "
        "descriptor set.",
        is_what=False,
    )
    message: str = option("Name of the Protobuf message.", "")
    separator: str = option("Separator of the values of CSV.", ",")


@dataclass(frozen=True)
class DecodedBody:
    """Decoder of message bodies, with the schema of the columns that `typed` makes of them."""

    form: BodyForm
    schema: StructType

    @property
    def read(self) -> Column:
        """Spark column that decodes the column `body` to a struct of `value` and `reason`, one of them null."""
        return value_and_reason(self.form, f.col("body"))


def decoded(options: BodyOptions) -> DecodedBody:
    """Return the decoder of bodies by the options; raise SettingsError for a wrong schema, message name or separator."""
    form: BodyForm
    if options.format in ("avro", "protobuf"):
        form = _binary_form(options)
        return DecodedBody(form, form.columns)
    schema = schema_of(options.schema)
    if options.format == "json":
        return DecodedBody(JsonBodies(schema), schema)
    return DecodedBody(CsvBodies(schema, separator=options.separator), schema)


def typed(value: Column, schema: StructType) -> list[Column]:
    """Return a schema's columns from a decoded struct, cast to their types: JSON and CSV decoders keep times as text."""
    columns = []
    for each in without_rules(schema).fields:
        column = value[each.name]
        if isinstance(each.dataType, VariantType):
            column = f.parse_json(column)
        else:
            column = column.cast(each.dataType)
        columns.append(column.alias(each.name))
    return columns


def schema_of(given: str) -> StructType:
    """Parse a schema from DDL or JSON text, or a file with such a text; raise SettingsError if it is invalid."""
    text = _content(given)
    columns: DataType
    try:
        if text.lstrip().startswith("{"):
            columns = StructType.fromJson(json.loads(text))
        else:
            columns = StructType.fromDDL(text)
    except (ParseException, ValueError, KeyError, TypeError, AttributeError):
        columns = NullType()
    # A type alone, such as "int", has no columns.
    if not isinstance(columns, StructType):
        raise SettingsError(
            f"--schema {in_quotes(given)} is neither an existing file nor columns such as 'id BIGINT, name STRING'"
        )
    return columns


def _content(given: str) -> str:
    """Return the text of a file, or `given` itself if it names no file or is long; raise SettingsError for a binary file."""
    path = Path(given)
    if len(given) >= 255 or not path.is_file():
        return given
    try:
        return path.read_text()
    except UnicodeDecodeError:
        raise SettingsError(
            f"--schema {given} is not a text file; if it is a Protobuf descriptor set, add --format protobuf"
        ) from None


def _binary_form(options: BodyOptions) -> BodyForm:
    # Imported on use, because of their libraries.
    if options.format == "avro":
        from cometmq.spark.jobs.avro_bodies import AvroBodies

        return AvroBodies.of(_content(options.schema))
    from cometmq.spark.jobs.protobuf_bodies import ProtobufBodies

    return ProtobufBodies.of(options.schema, options.message)
