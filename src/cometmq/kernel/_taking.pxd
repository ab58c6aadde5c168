# Of the taking of sends, what compiled code calls.
from cometmq.kernel._columns cimport SendBatch
from cometmq.kernel._lane_table cimport LaneTable
from cometmq.kernel._signatures cimport KnownSigner


cdef Py_ssize_t take(
    SendBatch batch, bytes data, Py_ssize_t position, Py_ssize_t count_max,
    bytes host, LaneTable straight, tuple limits, KnownSigner signer,
) except -1
