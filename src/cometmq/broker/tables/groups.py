"""The table of a broker's consumer groups, saved to subscriptionGroup.json.

Groups are created for example by administrators or their first use. Follows SubscriptionGroupManager of RocketMQ 5.3.3.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import Executor

from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.saving import Saver
from cometmq.codec import fastjson
from cometmq.codec.bodies.group_config import (
    NO_GROUP,
    GroupEntry,
    GroupTable,
    decode_group_table,
    encode_groups_file,
)
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import RequestError, invalid_parameter
from cometmq.model.flags import PERM_READ
from cometmq.model.group import GroupConfig
from cometmq.model.names import (
    SYSTEM_GROUPS,
    group_fault,
    group_of_derived,
    is_system_group,
)
from cometmq.model.text import listed, plural
from cometmq.store.config_file import ConfigFile

_log = logging.getLogger(__name__)

# Limits for groups created by first use: hundreds of applications can start at once, but a client that invents new
# names all the time fills the table only slowly.
NEW_GROUPS_AT_ONCE = 1000
NEW_GROUPS_PER_SECOND = 20
# Largest size in bytes, as JSON, of a group's attributes, retry policy and topics that it must not read. All of it is
# one record in the log of a group of brokers.
GROUP_SIZE_MAX = 1 << 20


class Allowance:
    """A rate limit: `at_once` immediately, and `per_second` in the long run."""

    def __init__(self, clock: Clock, *, at_once: int, per_second: float) -> None:
        self._clock = clock
        self._most = float(at_once)
        self._per_second = per_second
        self._left = self._most
        self._since = clock.monotonic()

    def take(self) -> bool:
        """Take one from the allowance and return True, or return False if it is used up."""
        now = self._clock.monotonic()
        self._left = min(self._most, self._left + (now - self._since) * self._per_second)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Groups:
    """The table of consumer groups.

    Attributes:
        version: The DataVersion of the table; each change here replaces it by a newer one.
        is_copy: Whether this is a slave's table, in which `get` creates no groups.
        on_change: Called with the name of each group that was created, changed or deleted, except by `make_again`.
        on_delete: Called with the name of each group that was deleted together with its offsets: every table and
            feature that stores something by group forgets it (`forget_group`).
        refused: Number of groups that were not created because there are too many, or too many new ones.
    """

    def __init__(
        self,
        file: ConfigFile,
        settings: BrokerSettings,
        *,
        clock: Clock,
        pool: Executor,
    ) -> None:
        self.version = DataVersion(clock.now_ms())
        self.is_copy = False
        self.refused = 0
        self.on_change: list[Callable[[str], None]] = []
        self.on_delete: list[Callable[[str], None]] = []
        self._file = file
        self._settings = settings
        self._clock = clock
        self._groups: dict[str, GroupConfig] = {}
        self._forbidden: dict[str, Mapping[str, int]] = {}
        self.saver = Saver(file, self._snapshot, pool)
        self._allowance = Allowance(
            clock, at_once=NEW_GROUPS_AT_ONCE, per_second=NEW_GROUPS_PER_SECOND
        )

    def load(self) -> None:
        """Read subscriptionGroup.json, add missing system groups; raise CodecError if only damaged copies exist."""
        table = self._file.load(decode_group_table)
        if table is not None:
            self._groups = dict(table.groups)
            self._forbidden = dict(table.forbidden)
            self.version = table.version
        known = len(self._groups)
        for name in SYSTEM_GROUPS:
            self._groups.setdefault(name, GroupConfig(name))
        if len(self._groups) > known:
            self._changed()

    def get(self, name: str) -> GroupConfig | None:
        """Return a group; if it is missing, create it, or return None if that is not allowed or the name is invalid.

        A slave creates none, because its table is a copy, but returns the configuration that a new group would have.

        Raises:
            RequestError: The group (not a system group) would be created, but there are too many, or too many new ones.
        """
        found = self._groups.get(name)
        if found is None and (self._settings.is_group_auto_created or is_system_group(name)):
            if group_fault(name) is not None:
                return None
            if self.is_copy:
                return GroupConfig(name)
            if not is_system_group(name):
                self.check_room(name, code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
                self._check_pace(name)
            found = self._groups[name] = GroupConfig(name)
            self._changed(name)
        return found

    def consuming(self, name: str, fields: dict[str, str]) -> GroupConfig:
        """Return a group as `get` does, if it may consume.

        Raises:
            RequestError: As `get`; SUBSCRIPTION_GROUP_NOT_EXIST: There is none; NO_PERMISSION, with these header `fields`:
                It may not consume.
        """
        group = self.get(name)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist, create it or set "
                "autoCreateSubscriptionGroup=true",
            )
        if not group.consume_enabled:
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"subscription group no permission, {name}", fields
            )
        return group

    def check_room(self, name: str, *, code: int = ResponseCode.SYSTEM_ERROR) -> None:
        """Raise RequestError with `code` if this group does not exist and there are too many groups for a new one."""
        if name not in self._groups and len(self._groups) >= self._settings.groups_max:
            self.refused += 1
            raise RequestError(
                code,
                f"consumer group {name} cannot be created: this broker has {len(self._groups)} groups, and "
                f"groupsMax is {self._settings.groups_max}; delete some, or raise it",
            )

    def _check_pace(self, name: str) -> None:
        if not self._allowance.take():
            self.refused += 1
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"consumer group {name} is not created now: the first use of groups creates at most "
                f"{NEW_GROUPS_PER_SECOND} groups per second; try again, or let an administrator create it",
            )

    def peek(self, name: str) -> GroupConfig | None:
        """Return a group, or None; creates nothing."""
        return self._groups.get(name)

    def table(self) -> GroupTable:
        """Return a snapshot of all groups, the topics that they must not read, and the version."""
        return GroupTable(self.version, dict(self._groups), dict(self._forbidden))

    def put(self, config: GroupConfig) -> asyncio.Future[None]:
        """Create or change a group; the future is done when that is on disk, or fails.

        Raises RequestError if its settings are too large.
        """
        self._check_size(config, self._forbidden.get(config.name, {}))
        self._groups[config.name] = config
        return self._changed(config.name)

    def delete(self, name: str, *, is_place_kept: bool = False) -> asyncio.Future[None]:
        """Delete a group, with its offsets unless `is_place_kept`; the future is that of saving groups.

        With `is_place_kept`, only its settings and read permissions are deleted: its offsets and what else is stored
        about it are kept, so that the group continues there if it is created again.
        """
        self._groups.pop(name, None)
        self._forbidden.pop(name, None)
        if not is_place_kept:
            self.forget(name)
        return self._changed(name)

    def make_again(self, made: Iterable[str], topics: Container[str]) -> None:
        """Recreate missing groups with retry or dead-letter topics in `made`; `topics` are the names of all topics."""
        found = {group_of_derived(topic, topics) for topic in made}
        missing = sorted({name for name in found if name is not None} - self._groups.keys())
        if missing:
            self._groups.update((name, GroupConfig(name)) for name in missing)
            self._changed()
            _log.warning(
                "recreated: %d %s, whose retry or dead-letter topics are recreated; their former settings are "
                "not known here: %s",
                len(missing), plural(len(missing), "group"), listed(missing),
            )  # fmt: skip

    def forget(self, name: str) -> None:
        """Let everything that stores something by group forget one that was deleted with its offsets (`on_delete`)."""
        for forget in self.on_delete:
            forget(name)

    def forget_topic(self, topic: str) -> None:
        """Forget which groups are forbidden to read a topic, because the topic is deleted."""
        for name in [name for name, topics in self._forbidden.items() if topic in topics]:
            self.permit(name, topic, is_readable=True)

    def take(self, table: GroupTable, *, is_whole: bool) -> list[str]:
        """Apply a master's groups, read permissions and version, and return the names of the groups that were deleted.

        With `is_whole`, groups that the master does not have are deleted, except for system groups; else they stay.
        """
        gone = [
            name
            for name in (self._groups.keys() - table.groups.keys() if is_whole else ())
            if not is_system_group(name)
        ]
        fresh = {**self._groups, **table.groups}
        for name in gone:
            del fresh[name]
        forbidden = dict(table.forbidden)
        if (fresh, forbidden, table.version) != (self._groups, self._forbidden, self.version):
            self._groups, self._forbidden, self.version = fresh, forbidden, table.version
            self.saver.save_soon()
        for name in gone:
            self.forget(name)
        return gone

    def entry(self, name: str) -> GroupEntry | None:
        """Return what the table has about a group, or None if that is nothing."""
        entry = GroupEntry(self._groups.get(name), self._forbidden.get(name, {}))
        return None if entry == NO_GROUP else entry

    def names(self) -> list[str]:
        """Return the names of all groups that exist or that may not read a topic."""
        return list({**self._groups, **self._forbidden})

    def apply(self, changes: Mapping[str, GroupEntry | None]) -> None:
        """Set groups, or remove those that are None, as the leader of the group of brokers has them; system groups stay."""
        changed = False
        for name, entry in changes.items():
            config, forbidden = entry or NO_GROUP
            if entry == self.entry(name) or (config is None and is_system_group(name)):
                continue
            changed = True
            self._groups.pop(name, None)
            self._forbidden.pop(name, None)
            if config is not None:
                self._groups[name] = config
            if forbidden:
                self._forbidden[name] = forbidden
        if changed:
            self._changed()

    # --- topics that a group may not read

    def is_readable(self, name: str, topic: str) -> bool:
        """Return whether a group may read a topic, which it may unless that was forbidden (`permit`)."""
        topics = self._forbidden.get(name)
        return topics is None or not topics.get(topic, 0) & PERM_READ

    def permit(self, name: str, topic: str, *, is_readable: bool) -> asyncio.Future[None]:
        """Permit or forbid a group to read a topic; the future is done when that is on disk, or fails.

        Raises RequestError if too many topics are forbidden to it.
        """
        topics = dict(self._forbidden.get(name, {}))
        bits = topics.pop(topic, 0) & ~PERM_READ
        if not is_readable:
            bits |= PERM_READ
        if bits:
            topics[topic] = bits
            self._check_size(self._groups.get(name) or GroupConfig(name), topics)
        self._forbidden[name] = topics
        if not topics:
            del self._forbidden[name]
        return self._changed(name)

    @staticmethod
    def _check_size(config: GroupConfig, forbidden: Mapping[str, int]) -> None:
        parts = [dict(config.attributes), dict(config.retry_policy), dict(forbidden)]
        size = len(fastjson.dumps(parts))
        if size > GROUP_SIZE_MAX:
            raise invalid_parameter(
                f"group {config.name} is refused: its attributes, retry policy and forbidden topics would have {size} bytes, "
                f"of at most {GROUP_SIZE_MAX}; remove attributes, or permit topics"
            )

    # --- the file

    def _changed(self, *names: str) -> asyncio.Future[None]:
        self.version = self.version.next(self._clock.now_ms())
        for name in names:
            for listener in self.on_change:
                listener(name)
        return self.saver.save_soon()

    def _snapshot(self) -> Callable[[], str]:
        table = self.table()
        return lambda: encode_groups_file(table)
