"""Every function of the compiled kernel, whichever kernel runs; ImportError where it was not built."""

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
from cometmq.kernel._packing import count_records, pack_records
from cometmq.kernel._pipelined_sends import PipelinedSends, pack_pipelined_sends, plain_answers
from cometmq.kernel._pull_answers import pull_answer
from cometmq.kernel._pulls import split_pull
from cometmq.kernel._queue_ends import QueueEnd
from cometmq.kernel._reads import plain_fields, plain_read
from cometmq.kernel._signatures import KnownSigner, sha1
from cometmq.kernel._taking import take_sends
from cometmq.kernel._tallies import Tally, count_columns, count_puts
from cometmq.kernel._time_counts import TimeCounts
from cometmq.kernel._turn_reads import PeerEnd, TurnReads, answer_reads, take_reads

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
    "choose_entries",
    "count_columns",
    "count_puts",
    "count_records",
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
    "plain_read",
    "pull_answer",
    "raw_keys",
    "read_commands",
    "record_keys",
    "sha1",
    "show_columns",
    "show_entries",
    "show_records",
    "split_pull",
    "take_acks",
    "take_back",
    "take_reads",
    "take_sends",
]
