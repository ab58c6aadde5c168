"""Checks of records that include the CRC of each whole record, if forceVerifyPropCRC requires it."""

from collections.abc import Callable

from cometmq.codec.property_crc import is_crc_right
from cometmq.codec.record import Record
from cometmq.kernel import WalkEnd
from cometmq.store.disk import Buffer
from cometmq.store.record_walk import CheckedRecords, checked_records, valid_records
from cometmq.store.settings import StoreSettings

# (a piece of the log, its physical offset) -> its records, the position where they end, and why.
Walk = Callable[[bytes, int], tuple[list[Record], int, WalkEnd]]


# The same without creating the records.
Check = Callable[[Buffer, int], CheckedRecords]


def check_of(settings: StoreSettings) -> Check:
    """Return the function that checks bytes of the log under these settings."""
    return checked_whole_records if settings.is_whole_crc_checked else checked_records


def checked_whole_records(chunk: Buffer, offset: int) -> CheckedRecords:
    """Check records like `checked_records`, up to the first with a wrong CRC of the whole record."""
    _, walked, why = valid_whole_records(bytes(chunk), offset)
    return checked_records(chunk[:walked], offset)._replace(why=why)


def walk_of(settings: StoreSettings) -> Walk:
    """Return the function that decodes and checks records under these settings."""
    return valid_whole_records if settings.is_whole_crc_checked else valid_records


def valid_whole_records(chunk: bytes, offset: int) -> tuple[list[Record], int, WalkEnd]:
    """Return records like `valid_records`, up to the first with a wrong CRC of the whole record."""
    records, walked, why = valid_records(chunk, offset)
    for number, record in enumerate(records):
        position = record.physical_offset - offset
        if is_crc_right(chunk, position, record.store_size) is False:
            return records[:number], position, WalkEnd.UNKNOWN
    return records, walked, why
