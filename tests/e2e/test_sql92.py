"""Consumers that filter by SQL92, on a whole cluster."""

import pytest

from cometmq import Message, Producer, PullConsumer, Sql
from cometmq.embedded import Embedded
from cometmq.model.errors import ExpressionError


def test_consumers_get_what_their_expression_lets_through():
    with Embedded() as cluster, Producer(cluster.nameserver) as producer:
        queue = producer.send(Message("Orders", b"first", properties={"price": "1"})).queue
        for price in (5, 50, 500):
            message = Message("Orders", b"%d" % price, properties={"price": str(price)})
            producer.send(message, queue=queue)
        with PullConsumer(cluster.nameserver) as consumer:
            result = consumer.fetch(queue, 0, expression=Sql("price > 10"))
        assert [message.body for message in result.messages] == [b"50", b"500"]
        assert result.next_offset == 4


def test_a_bad_expression_is_refused_where_it_is_written():
    with pytest.raises(ExpressionError, match="column 7"):
        Sql("price > 'cheap'")
