"""Options of an SQL table: `CREATE TABLE … USING rocketmq OPTIONS (…)`.

Spark 4.3 passes a catalog table's options to a Python source only once, when it requests the schema of the new table. A
read of the table passes the table's schema, but only the options of the statement. The table's options, but
not secrets, are therefore stored in the metadata of the schema's first column, which the catalog keeps (docs/design/0025).

Writes do not use this. A writer receives the schema of the query, and for
`INSERT INTO copy SELECT * FROM orders` its metadata is that of `orders`.
"""

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from pyspark.sql.types import StructField, StructType

from cometmq.spark.options import TABLE_PREFIX, Option

_KEY = "cometmq.options"
# Many users read the catalog, and a query writes the schema into its files, so secrets are never stored there.
_SECRETS = ("secret", "accesskey", "token", "password")


def with_table_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema of a new SQL table with its options in the first column's metadata; any other unchanged.

    Options whose names suggest a secret are left out: a statement can give them.
    """
    if not any(name == "location" or name.startswith(TABLE_PREFIX) for name in options):
        return schema  # A read, which gets its options with each statement.
    kept = {
        name.removeprefix(TABLE_PREFIX): text
        for name, text in options.items()
        if name.startswith(TABLE_PREFIX) and not any(word in name for word in _SECRETS)
    }
    # Spark turns the option `path` into the table's location; a local path becomes "file:/var/store".
    place = urlsplit(options.get("location") or options.get("path") or "")
    if place.path:
        kept["path"] = unquote(place.path) if place.scheme in ("", "file") else place.geturl()
    first, *others = schema.fields
    marked = StructField(first.name, first.dataType, first.nullable, {_KEY: kept})
    return StructType([marked, *others])


def table_options(
    schema: StructType, options: Mapping[str, str], required: Option
) -> dict[str, str]:
    """Return the options of a read, names in lower case: those of the table, overridden by those of the statement.

    Args:
        schema: Schema of the read; that of a table contains the table's options.
        options: Options of the statement.
        required: Option that names the cluster or store. If the statement has it, the table's options are ignored.
    """
    given = {name.lower(): text for name, text in options.items()}
    names = {name.lower() for name in (required.name, *required.aliases)}
    if names & given.keys() or not schema.fields:
        return given
    kept: Mapping[str, str] = (schema.fields[0].metadata or {}).get(_KEY, {})
    return {**kept, **given}
