"""The hot loops over bytes and integers, in plain Python and as compiled twins.

The plain modules define what each function does; `declines` is the send fast path without a compiler. Modules with an
underscore are compiled twins, used if all can be imported; COMETMQ_KERNEL=reference or =fast selects (docs/design/0017).
"""

import os
from typing import TYPE_CHECKING

from cometmq.kernel.layouts import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN
from cometmq.kernel.reference import WalkEnd, split_frames, walk_records, why_no_record
from cometmq.kernel.sends import answers_of, as_one, ids_of

KERNEL = os.environ.get("COMETMQ_KERNEL", "")
WHY_PLAIN: str | None = None  # Why the plain kernel is used, if it is.
try:
    if KERNEL == "reference":
        raise ImportError("COMETMQ_KERNEL=reference asks for it")  # noqa: TRY301
    if not TYPE_CHECKING:  # The types are those of the plain twins.
        from cometmq.kernel._acks import plain_acks, take_acks
        from cometmq.kernel._answers import (
            encode_answer_head,
            encode_answers,
            encode_requests,
        )
        from cometmq.kernel._calls import begin_writing
        from cometmq.kernel._column_records import (
            answer_columns,
            pack_columns,
            show_columns,
            take_back,
        )
        from cometmq.kernel._columns import SendBatch
        from cometmq.kernel._entries import choose_entries, gather, show_entries, show_records
        from cometmq.kernel._filters import PropertyFilter, TagCodes
        from cometmq.kernel._frames import read_commands
        from cometmq.kernel._index import (
            index_keys,
            insert_keys,
            java_hash_many,
            raw_keys,
            record_keys,
        )
        from cometmq.kernel._lane_table import LaneTable
        from cometmq.kernel._mapped_files import MappedFile
        from cometmq.kernel._messages import plain_block, plain_messages, plain_properties
        from cometmq.kernel._packing import count_records, pack_records
        from cometmq.kernel._pipelined_sends import (
            PipelinedSends,
            pack_pipelined_sends,
            plain_answers,
        )
        from cometmq.kernel._pull_answers import pull_answer
        from cometmq.kernel._pulls import split_pull
        from cometmq.kernel._queue_ends import QueueEnd
        from cometmq.kernel._reads import plain_header, plain_read
        from cometmq.kernel._signatures import KnownSigner
        from cometmq.kernel._taking import take_sends
        from cometmq.kernel._tallies import Tally, count_columns, count_puts
        from cometmq.kernel._time_counts import TimeCounts
        from cometmq.kernel._turn_reads import PeerEnd, TurnReads, answer_reads, take_reads
        from cometmq.kernel._walk import (
            check_records,
            copy_pieces,
            crcs_match,
            plain_records,
            record_places,
            stored_keys,
            wanted_entries,
        )

    KERNEL = "fast"
except ImportError as error:
    if KERNEL == "fast":
        raise
    # The modules are not compiled, or are of an older version: whoever starts a broker is notified.
    WHY_PLAIN = str(error)
    from cometmq.kernel.acks import plain_acks, take_acks
    from cometmq.kernel.calls import begin_writing
    from cometmq.kernel.declines import (
        KnownSigner,
        LaneTable,
        SendBatch,
        answer_columns,
        answer_reads,
        count_columns,
        pack_columns,
        show_columns,
        take_back,
        take_reads,
        take_sends,
    )
    from cometmq.kernel.filters import PropertyFilter, TagCodes
    from cometmq.kernel.keys import index_keys, insert_keys, record_keys
    from cometmq.kernel.mapped_files import MappedFile
    from cometmq.kernel.messages import plain_block, plain_messages, plain_properties
    from cometmq.kernel.pipelined_sends import (
        PipelinedSends,
        pack_pipelined_sends,
        plain_answers,
    )
    from cometmq.kernel.pull_answers import pull_answer
    from cometmq.kernel.pulls import split_pull
    from cometmq.kernel.queue_ends import QueueEnd
    from cometmq.kernel.reads import plain_header, plain_read
    from cometmq.kernel.records import (
        check_records,
        copy_pieces,
        crcs_match,
        plain_records,
        record_places,
    )
    from cometmq.kernel.reference import (
        choose_entries,
        count_records,
        gather,
        java_hash_many,
        read_commands,
    )
    from cometmq.kernel.requests import encode_answer_head, encode_requests
    from cometmq.kernel.sends import (
        encode_answers,
        pack_records,
        show_entries,
    )
    from cometmq.kernel.tallies import Tally, count_puts
    from cometmq.kernel.time_counts import TimeCounts
    from cometmq.kernel.turn_reads import PeerEnd, TurnReads
    from cometmq.kernel.wanted import raw_keys, show_records, stored_keys, wanted_entries

    KERNEL = "reference"

__all__ = [
    "KERNEL",
    "MAGIC_BLANK",
    "MAGIC_V1",
    "MAGIC_V2",
    "RECORD_SIZE_MIN",
    "WHY_PLAIN",
    "KnownSigner",
    "LaneTable",
    "MappedFile",
    "PeerEnd",
    "PipelinedSends",
    "PropertyFilter",
    "QueueEnd",
    "SendBatch",
    "TagCodes",
    "Tally",
    "TimeCounts",
    "TurnReads",
    "WalkEnd",
    "answer_columns",
    "answer_reads",
    "answers_of",
    "as_one",
    "begin_writing",
    "check_records",
    "choose_entries",
    "copy_pieces",
    "count_columns",
    "count_puts",
    "count_records",
    "crcs_match",
    "encode_answer_head",
    "encode_answers",
    "encode_requests",
    "gather",
    "ids_of",
    "index_keys",
    "insert_keys",
    "java_hash_many",
    "pack_columns",
    "pack_pipelined_sends",
    "pack_records",
    "plain_acks",
    "plain_answers",
    "plain_block",
    "plain_header",
    "plain_messages",
    "plain_properties",
    "plain_read",
    "plain_records",
    "pull_answer",
    "raw_keys",
    "read_commands",
    "record_keys",
    "record_places",
    "show_columns",
    "show_entries",
    "show_records",
    "split_frames",
    "split_pull",
    "stored_keys",
    "take_acks",
    "take_back",
    "take_reads",
    "take_sends",
    "walk_records",
    "wanted_entries",
    "why_no_record",
]
