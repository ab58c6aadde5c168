"""Hot loops on bytes and ints: what they mean in plain Python, and a compiled twin.

`reference`, `records`, `wanted`, `keys`, `sends`, `requests`, `messages`, `acks`, `reads` and `calls` say what each function does,
`layouts` which bytes stand where, `queue_ends` what it knows of a queue, `rows` which tuples go in and out;
the modules with an underscore do the same, compiled, and run where the package was built with a C compiler.
COMETMQ_KERNEL=reference or =fast chooses one for certain (docs/design/0017).
"""

import os

from cometmq.kernel.layouts import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN
from cometmq.kernel.reference import WalkEnd, split_frames, walk_records, why_no_record

KERNEL = os.environ.get("COMETMQ_KERNEL", "")
try:
    if KERNEL == "reference":
        raise ImportError  # noqa: TRY301  The plain kernel was asked for.
    from cometmq.kernel._acks import plain_acks
    from cometmq.kernel._answers import encode_answers, encode_requests
    from cometmq.kernel._calls import begin_writing
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
    from cometmq.kernel._messages import plain_messages, plain_properties
    from cometmq.kernel._packing import count_records, pack_records
    from cometmq.kernel._queue_ends import QueueEnd
    from cometmq.kernel._reads import plain_fields, plain_read
    from cometmq.kernel._sends import plain_batch, plain_sends
    from cometmq.kernel._taking import take_sends
    from cometmq.kernel._walk import (
        copy_pieces,
        crcs_match,
        plain_records,
        record_places,
        stored_keys,
        wanted_entries,
    )

    KERNEL = "fast"
except ImportError:
    if KERNEL == "fast":
        raise
    from cometmq.kernel.acks import plain_acks
    from cometmq.kernel.calls import begin_writing
    from cometmq.kernel.column_records import (
        answer_columns,
        pack_columns,
        show_columns,
        take_back,
    )
    from cometmq.kernel.columns import SendBatch, take_sends
    from cometmq.kernel.keys import index_keys, record_keys
    from cometmq.kernel.messages import plain_messages, plain_properties
    from cometmq.kernel.queue_ends import QueueEnd
    from cometmq.kernel.reads import plain_fields, plain_read
    from cometmq.kernel.records import copy_pieces, crcs_match, plain_records, record_places
    from cometmq.kernel.reference import (
        choose_entries,
        count_records,
        gather,
        index_insert,
        java_hash_many,
        read_commands,
    )
    from cometmq.kernel.requests import encode_requests
    from cometmq.kernel.sends import (
        encode_answers,
        pack_records,
        plain_batch,
        plain_sends,
        show_entries,
    )
    from cometmq.kernel.wanted import stored_keys, wanted_entries

    KERNEL = "reference"

__all__ = [
    "KERNEL",
    "MAGIC_BLANK",
    "MAGIC_V1",
    "MAGIC_V2",
    "RECORD_SIZE_MIN",
    "QueueEnd",
    "SendBatch",
    "WalkEnd",
    "answer_columns",
    "begin_writing",
    "choose_entries",
    "copy_pieces",
    "count_records",
    "crcs_match",
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
    "plain_messages",
    "plain_properties",
    "plain_read",
    "plain_records",
    "plain_sends",
    "read_commands",
    "record_keys",
    "record_places",
    "show_columns",
    "show_entries",
    "split_frames",
    "stored_keys",
    "take_back",
    "take_sends",
    "walk_records",
    "wanted_entries",
    "why_no_record",
]
