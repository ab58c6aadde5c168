"""Settings of a broker that concern the index and queries: RocketMQ's keys."""

from cometmq.broker.settings.delay_keys import DelayKeys
from cometmq.codec.index_file import ENTRIES_DEFAULT, SLOTS_DEFAULT
from cometmq.model.frozen import dataclass
from cometmq.model.settings import setting
from cometmq.store.settings import IndexSettings

_INT_MAX = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class IndexKeys(DelayKeys):
    """Of MessageStoreConfig of RocketMQ 5.3.3.

    Attributes:
        is_index_built: the keys of new messages go to the index.
        is_index_safe: after an unclean stop of a Java broker recovery begins as early as the index
            needs; after one of ours the index lacks nothing.
        index_slots: slots of an index file.
        index_entries: entries of an index file, the first of which is not used.
        query_count_max: most messages that a query gives.
        query_count_unique: as many, for a query by unique key, whatever it asks for.
    """

    is_index_built: bool = setting(default=True, key="messageIndexEnable")
    is_index_safe: bool = setting(default=False, key="messageIndexSafe")
    index_slots: int = setting(SLOTS_DEFAULT, key="maxHashSlotNum", least=1, most=_INT_MAX)
    index_entries: int = setting(ENTRIES_DEFAULT, key="maxIndexNum", least=2, most=_INT_MAX)
    query_count_max: int = setting(64, key="maxMsgsNumBatch", least=1)
    query_count_unique: int = setting(32, key="defaultQueryMaxNum", least=1)

    def index_settings(self) -> IndexSettings:
        """The settings of the store's index."""
        return IndexSettings(
            is_built=self.is_index_built,
            is_safe=self.is_index_safe,
            slots=self.index_slots,
            entries=self.index_entries,
            answer_count_max=self.query_count_max,
        )
