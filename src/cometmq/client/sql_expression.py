"""Subscriptions by SQL92 in place of tags: `{"orders": by_sql("region = 'hz' AND price > 100")}`.

Follows MessageSelector.bySql of RocketMQ 5.3.3. Brokers evaluate the expression; one of Java's does
so where enablePropertyFilter is true.

Next: cometmq.client.group_member
"""

from cometmq.codec.sql92 import sql92_filter
from cometmq.model.subscription import Sql92


def by_sql(expression: str) -> Sql92:
    """An expression over message properties, for wherever a tag expression can stand.

    Args:
        expression: comparisons (=, <>, <, <=, >, >=, BETWEEN, IN, IS NULL, CONTAINS, STARTSWITH,
            ENDSWITH) joined by AND, OR and NOT; strings stand in single quotes.

    Raises:
        ExpressionError: it is no expression; the message shows where it is wrong.
    """
    return Sql92(sql92_filter(expression).expression)
