"""The options of a table that SQL made: `CREATE TABLE … USING rocketmq OPTIONS (…)`.

Spark 4.3 gives a catalog table's options to a Python source once, when it asks for the schema of
the new table; a read of the table brings the table's schema, but only the options of the
statement. So the options travel in the schema: in the metadata of its first column, which the
catalog keeps (docs/design/0025-spark-packaging-and-cluster.md).

Writes do not use this. What reaches a writer is the schema of the query, and for
`INSERT INTO copy SELECT * FROM orders` its metadata is that of `orders`.
"""

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from pyspark.sql.types import StructField, StructType

from cometmq.spark.options import TABLE_PREFIX, Option

_KEY = "cometmq.options"
# The catalog is read by many, and a schema is written into the files that a query makes.
_SECRETS = ("secret", "accesskey", "token", "password")


def with_table_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema, with the options in it where they are those of a new table.

    Options whose names say that they are secret are left out: a statement has to bring them.
    """
    if not any(name == "location" or name.startswith(TABLE_PREFIX) for name in options):
        return schema  # A read, whose options come again.
    kept = {
        name.removeprefix(TABLE_PREFIX): text
        for name, text in options.items()
        if name.startswith(TABLE_PREFIX) and not any(word in name for word in _SECRETS)
    }
    # Spark makes a table's location of its option `path`, and of a local one "file:/var/store".
    place = urlsplit(options.get("location") or options.get("path") or "")
    if place.path:
        kept["path"] = unquote(place.path) if place.scheme in ("", "file") else place.geturl()
    first, *others = schema.fields
    marked = StructField(first.name, first.dataType, first.nullable, {_KEY: kept})
    return StructType([marked, *others])


def table_options(
    schema: StructType, options: Mapping[str, str], required: Option
) -> dict[str, str]:
    """The options of a read: the statement's, over those of the table that it reads.

    Args:
        schema: of the read; a table's holds its options.
        options: of the statement.
        required: the option without which nothing can be read. Who gives it reads no table, even
            with a table's schema.
    """
    given = {name.lower(): text for name, text in options.items()}
    names = {name.lower() for name in (required.name, *required.aliases)}
    if names & given.keys() or not schema.fields:
        return given
    kept: Mapping[str, str] = (schema.fields[0].metadata or {}).get(_KEY, {})
    return {**kept, **given}
