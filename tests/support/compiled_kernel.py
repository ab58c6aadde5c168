"""Every function of the compiled kernel, whichever kernel runs; a module that imports it is skipped where there is no C compiler."""

import shutil

import pytest

try:
    from cometmq.kernel._acks import plain_acks, take_acks
    from cometmq.kernel._answers import encode_answers, encode_requests
    from cometmq.kernel._column_records import (
        answer_columns,
        pack_columns,
        show_columns,
        take_back,
    )
    from cometmq.kernel._columns import SendBatch
    from cometmq.kernel._entries import choose_entries, gather, show_entries, show_records
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
    from cometmq.kernel._messages import plain_messages, plain_properties
    from cometmq.kernel._packing import count_records, pack_records
    from cometmq.kernel._pipelined_sends import (
        PipelinedSends,
        pack_pipelined_sends,
        plain_answers,
    )
    from cometmq.kernel._pull_answers import pull_answer
    from cometmq.kernel._pulls import split_pull
    from cometmq.kernel._queue_ends import QueueEnd
    from cometmq.kernel._reads import plain_fields, plain_read
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
except ImportError:
    # With a compiler, what was not built is a fault.
    if shutil.which("cc") or shutil.which("gcc"):
        raise
    pytest.skip("no C compiler here, so no compiled kernel", allow_module_level=True)

__all__ = [
    "KnownSigner",
    "LaneTable",
    "MappedFile",
    "PeerEnd",
    "PipelinedSends",
    "QueueEnd",
    "SendBatch",
    "Tally",
    "TimeCounts",
    "TurnReads",
    "answer_columns",
    "answer_reads",
    "check_records",
    "choose_entries",
    "copy_pieces",
    "count_columns",
    "count_puts",
    "count_records",
    "crcs_match",
    "encode_answers",
    "encode_requests",
    "gather",
    "index_keys",
    "insert_keys",
    "java_hash_many",
    "pack_columns",
    "pack_pipelined_sends",
    "pack_records",
    "plain_acks",
    "plain_answers",
    "plain_fields",
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
    "split_pull",
    "stored_keys",
    "take_acks",
    "take_back",
    "take_reads",
    "take_sends",
    "wanted_entries",
]
