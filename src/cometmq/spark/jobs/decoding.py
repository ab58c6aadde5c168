"""The format and the schema of bodies, as options name them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.errors import ParseException
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, NullType, StructType, VariantType

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.body_forms import BodyForm, value_and_reason
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.options import JobOptions
from cometmq.spark.jobs.text_bodies import CsvBodies, JsonBodies
from cometmq.spark.jobs.text_values import without_rules

BodyFormat = Literal["json", "csv", "avro", "protobuf"]


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


@dataclass(frozen=True)
class DecodedBody:
    """A way to read bodies as columns.

    Attributes:
        form: Reads a body in a task.
        schema: The columns.
    """

    form: BodyForm
    schema: StructType

    @property
    def read(self) -> Column:
        """A column of the values and the reasons of the column `body`."""
        return value_and_reason(self.form, f.col("body"))


def decoded(options: BodyOptions) -> DecodedBody:
    """Choose how bodies are read.

    Raises:
        SettingsError: The schema is none, or has columns that the format has not.
    """
    form: BodyForm
    if options.format in ("avro", "protobuf"):
        form = _binary_form(options)
        return DecodedBody(form, form.columns)
    schema = schema_of(options.schema)
    if options.format == "json":
        return DecodedBody(JsonBodies(schema), schema)
    return DecodedBody(CsvBodies(schema, separator=options.separator), schema)


def typed(value: Column, schema: StructType) -> list[Column]:
    """Return the columns of a schema out of a struct whose times and variants are still text."""
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


def _binary_form(options: BodyOptions) -> BodyForm:
    # Their libraries are imported by who needs them.
    if options.format == "avro":
        from cometmq.spark.jobs.avro_bodies import AvroBodies

        return AvroBodies.of(_content(options.schema))
    from cometmq.spark.jobs.protobuf_bodies import ProtobufBodies

    return ProtobufBodies.of(options.schema, options.message)
