# cython: language_level=3, auto_pickle=False, boundscheck=False, wraparound=False
"""The compiled twin of `tallies`: what a turn adds for each run of a queue."""
from libc.stdint cimport int64_t

from cometmq.kernel._columns cimport Row, SendBatch
from cometmq.kernel._queue_ends cimport QueueEnd
from cometmq.kernel.tallies import SIZE_BOUNDS

cdef extern from *:
    void __builtin_prefetch(const void *at) nogil

cdef enum:
    # So many lanes are on their way from memory while a send is counted; then their queues, tallies, and what is above.
    LANES_AHEAD = 48
    QUEUES_AHEAD = 32
    TALLIES_AHEAD = 16
    ABOVE_AHEAD = 8
    CACHE_LINE = 64

cdef int64_t[CLASSES - 1] BOUNDS
for _index, _bound in enumerate(SIZE_BOUNDS):
    BOUNDS[_index] = _bound
assert len(SIZE_BOUNDS) == CLASSES - 1


cdef class Tally:
    """See `cometmq.kernel.tallies.Tally`."""

    def __init__(self, of, Tally above, list fresh not None):
        self.of, self.above, self.fresh = of, above, fresh

    def add(self, int64_t count, int64_t size, int64_t time_us):
        """See `cometmq.kernel.tallies.Tally.add`."""
        self.add_all(count, size, count * time_us, 1, NULL)

    def looked_at(self):
        """See `cometmq.kernel.tallies.Tally.looked_at`."""
        self.is_fresh = False

    @property
    def sizes(self):
        """See `cometmq.kernel.tallies.Tally`."""
        return tuple([self.classes[index] for index in range(CLASSES)]) if self.is_sized else ()

    cdef int add_all(
        self, int64_t count, int64_t size, int64_t time_us, int64_t times, int64_t *classes
    ) except -1:
        cdef Tally tally = self
        cdef int index
        while tally is not None:
            tally.count += count
            tally.size += size
            tally.time_us += time_us
            tally.times += times
            if classes != NULL:
                tally.is_sized = True
                for index in range(CLASSES):
                    tally.classes[index] += classes[index]
            tally.begin()
            tally = tally.above
        return 0

    cdef int begin(self) except -1:
        if not self.is_fresh:
            self.is_fresh = True
            self.fresh.append(self)
        return 0


cdef struct Run:
    int64_t count
    int64_t times
    int64_t size
    int64_t classes[CLASSES]


cdef inline void _begin(Run *run) noexcept:
    cdef int index
    run.count = run.size = run.times = 0
    for index in range(CLASSES):
        run.classes[index] = 0


cdef inline int _class_of(int64_t size) noexcept:
    cdef int index = 0
    while index < CLASSES - 1 and size > BOUNDS[index]:
        index += 1
    return index


cdef inline void _put(Run *run, int64_t size) noexcept:
    cdef int index = _class_of(size)
    run.count += 1
    run.size += size
    run.classes[index] += 1


cdef inline int _end(Run *run, QueueEnd queue, int64_t time_us) except -1:
    if run.count and queue is not None and queue.tally is not None:
        (<Tally?>queue.tally).add_all(run.count, run.size, run.count * time_us, 1, run.classes)
    return 0


cdef inline int _end_above(Run *run, Tally above, int64_t time_us) except -1:
    if run.count and above is not None:
        above.add_all(run.count, run.size, run.count * time_us, run.times, run.classes)
    _begin(run)
    return 0


cdef inline void _fetch(const void *at) noexcept nogil:
    __builtin_prefetch(at)
    __builtin_prefetch(<const char *>at + CACHE_LINE)


cdef inline void _fetch_tallies(SendBatch batch, Py_ssize_t index):
    """Have the processor fetch the tallies of later sends, and the way to them: of very many none is in a cache."""
    cdef object tally
    if index + LANES_AHEAD < batch.packed:
        _fetch(batch.rows[index + LANES_AHEAD].lane)
    if index + QUEUES_AHEAD < batch.packed:
        _fetch(<void *>(<tuple>batch.rows[index + QUEUES_AHEAD].lane)[0])
    if index + TALLIES_AHEAD < batch.packed:
        _fetch(<void *>(<QueueEnd>(<tuple>batch.rows[index + TALLIES_AHEAD].lane)[0]).tally)
    if index + ABOVE_AHEAD < batch.packed:
        tally = (<QueueEnd>(<tuple>batch.rows[index + ABOVE_AHEAD].lane)[0]).tally
        if type(tally) is Tally:
            _fetch(<void *>(<Tally>tally).above)


def count_columns(SendBatch batch not None, Py_ssize_t first, Py_ssize_t last, int64_t time_us):
    """See `cometmq.kernel.declines.count_columns`.

    Sends of several queues alternate, so what is above is added to once for all that follow each other in a topic.
    """
    cdef Py_ssize_t index
    cdef Row *row
    cdef tuple lane, last_lane = None
    cdef QueueEnd queue = None
    cdef Tally tally = None, above = None
    cdef Run run
    cdef int size_class
    _begin(&run)
    for index in range(max(first, 0), min(last, batch.packed)):
        _fetch_tallies(batch, index)
        row = batch.rows + index
        lane = <tuple>row.lane
        if lane is not last_lane:
            last_lane = lane
            if lane[0] is not queue:
                queue = <QueueEnd?>lane[0]
                tally = None if queue.tally is None else <Tally?>queue.tally
                if tally is not None:
                    if tally.above is not above:
                        _end_above(&run, above, time_us)
                        above = tally.above
                    tally.times += 1
                    tally.is_sized = True
                    tally.begin()
                    run.times += 1
        if tally is not None:
            size_class = _class_of(row.size)
            tally.count += 1
            tally.size += row.size
            tally.time_us += time_us
            tally.classes[size_class] += 1
            run.count += 1
            run.size += row.size
            run.classes[size_class] += 1
    _end_above(&run, above, time_us)


def count_puts(puts, results, int64_t time_us):
    """See `cometmq.kernel.tallies.count_puts`."""
    cdef tuple put, result
    cdef QueueEnd queue = None
    cdef Run run
    _begin(&run)
    for put, result in zip(puts, results, strict=True):
        if put[0] is not queue:
            _end(&run, queue, time_us)
            _begin(&run)
            queue = <QueueEnd?>put[0]
        _put(&run, <int64_t>result[2])
    _end(&run, queue, time_us)
