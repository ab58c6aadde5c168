"""Every function of the compiled kernel, whichever kernel runs; ImportError where it was not built."""

from cometmq.kernel._acks import plain_acks
from cometmq.kernel._answers import encode_answers, encode_requests
from cometmq.kernel._column_records import (
    answer_columns,
    pack_columns,
    show_columns,
    take_back,
)
from cometmq.kernel._columns import SendBatch
from cometmq.kernel._entries import choose_entries, gather, show_entries
from cometmq.kernel._frames import read_commands
from cometmq.kernel._index import index_insert, index_keys, java_hash_many, record_keys
from cometmq.kernel._packing import count_records, pack_records
from cometmq.kernel._queue_ends import QueueEnd
from cometmq.kernel._reads import plain_fields, plain_read
from cometmq.kernel._sends import plain_batch, plain_sends
from cometmq.kernel._taking import take_sends

__all__ = [
    "QueueEnd",
    "SendBatch",
    "answer_columns",
    "choose_entries",
    "count_records",
    "encode_answers",
    "encode_requests",
    "gather",
    "index_insert",
    "index_keys",
    "java_hash_many",
    "pack_columns",
    "pack_records",
    "plain_acks",
    "plain_batch",
    "plain_fields",
    "plain_read",
    "plain_sends",
    "read_commands",
    "record_keys",
    "show_columns",
    "show_entries",
    "take_back",
    "take_sends",
]
