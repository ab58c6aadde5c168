"""SQL92 expressions over message properties, used by brokers as filters of consumers (docs/design/0013)."""

from cometmq.codec.sql92.filter import (
    EXPRESSION_LENGTH_MAX,
    Sql92Filter,
    known_filter,
    sql92_filter,
)

__all__ = ["EXPRESSION_LENGTH_MAX", "Sql92Filter", "known_filter", "sql92_filter"]
