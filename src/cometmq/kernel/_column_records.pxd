# Of the columns' answers, what compiled code calls.
from cometmq.kernel._columns cimport SendBatch


cdef bytes answers_to(SendBatch batch, Py_ssize_t first, Py_ssize_t last, str host)
