"""Watches the members of this broker's group at the nameservers, to detect a rival master or a slave's new master.

A registration is by default sent only every 30 s, and a nameserver that prefers another master still answers it with
success (RouteInfoManager of RocketMQ 5.x). So each nameserver is asked for the members (GET_BROKER_MEMBER_GROUP): by a
master at the start and after each registration of all topics, by a slave about each second while it has no master.
A nameserver of CometMQ usually also closes the connection of a broker that has lost its place.

A master stops accepting messages when a nameserver's answer names another broker as the master, because consumers
read from that one, unless the last answer of any other nameserver names this broker. A nameserver that does not answer
counts for neither. A slave without a master registers again soon after a nameserver lists a new one; the answer has
its HA port.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from cometmq.broker.registration.nameserver_calls import AskNameservers, answer_of
from cometmq.broker.registration.registrar import KeepMachine
from cometmq.codec.bodies.cluster import decode_member_group
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.nameserver import BrokerIdentity, MemberGroupRequest
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CometError
from cometmq.model.route import MASTER_ID
from cometmq.steps.runner import NEVER, KeptMachine
from cometmq.steps.steps import Steps
from cometmq.store.message_store import MessageStore
from cometmq.store.running_flags import RunningFlag

_log = logging.getLogger(__name__)

PERIOD_SECONDS = 1.0  # For a slave without a master.
OLD_PERIOD_SECONDS = 3.0  # The same, for a nameserver that must be asked by a registration.
_TIMEOUT_MS = 3_000


class Fence:
    """A gate that stops a master from accepting messages while nameservers have another broker in its place."""

    def __init__(self, store: MessageStore, identity: BrokerIdentity) -> None:
        self._store = store
        self._identity = identity
        # Log end when a nameserver last listed this broker as the master.
        self._known_end = store.max_offset

    def confirm(self) -> None:
        """Note that a nameserver lists this broker as the master, and end the refusal of messages by `close`, if any."""
        self._known_end = self._store.max_offset
        if self._store.flags.clear(RunningFlag.FENCED):
            _log.warning("this broker is the master again and accepts messages")

    def close(self, rival: str, nameserver: str) -> None:
        """Refuse messages from now on, because `nameserver` has `rival` as the master."""
        if self._store.flags.has(RunningFlag.FENCED):
            return
        name, end = self._identity.broker_name, self._store.max_offset
        self._store.flags.raise_flag(
            RunningFlag.FENCED,
            f"nameserver {nameserver} has {rival} as the master of {name}, and consumers read from that one; "
            f"{self._identity.broker_addr} accepts no messages",
        )
        _log.error(
            "two masters of %s: nameserver %s has %s, and this broker is %s. It accepts no messages from now on; stop it, "
            "and start it as a slave with an empty storePathRootDir. The messages from physical offset %d to %d of its "
            "log, which came since it was last known to be the master, may exist only here",
            name, nameserver, rival, self._identity.broker_addr, self._known_end, end,
        )  # fmt: skip


class GroupWatch:
    """The background jobs that ask each nameserver for the members of this broker's group."""

    def __init__(
        self,
        nameservers: Sequence[str],
        identity: BrokerIdentity,
        ask: AskNameservers,
        *,
        fence: Fence | None,
        has_master: Callable[[], bool],
        register_at: Callable[[str], None],
    ) -> None:
        """Create the watch of a master (with `fence`, which stops it from accepting messages) or of a slave.

        `nameservers` are "host:port" each; `has_master` returns whether a slave copies from a master, and then a slave asks
        no nameserver; `register_at` schedules a slave's registration at a nameserver.
        """
        self._identity = identity
        self._ask = ask
        self._fence = fence
        self._has_master = has_master
        self._register_at = register_at
        # The master in each nameserver's last answer; None if it listed none, does not support the request or does not answer.
        self._masters: dict[str, str | None] = dict.fromkeys(nameservers)
        self._machines: dict[str, KeptMachine] = {}

    def begin(self, keep: KeepMachine) -> None:
        """Start the background jobs, one per nameserver."""
        for nameserver in self._masters:
            step = partial(self._step, nameserver)
            self._machines[nameserver] = keep(f"group at {nameserver}", step)

    def look(self) -> None:
        """Wake the jobs, so that they ask the nameservers for this group's members soon, unless this slave has its master."""
        for machine in self._machines.values():
            machine.wake()

    def other_master(self) -> tuple[str, str] | None:
        """Return another broker that a nameserver's last answer names as the master, and the nameserver, or None."""
        own = self._identity.broker_addr
        for nameserver, master in self._masters.items():
            if master not in (None, own):
                return str(master), nameserver
        return None

    def registered(self, nameserver: str) -> None:
        """Wake the job that asks a nameserver for the group's members, after a registration of all topics there."""
        if nameserver in self._machines:
            self._machines[nameserver].wake()

    def _step(self, nameserver: str) -> Steps[float]:
        if self._fence is None and self._has_master():
            return PERIOD_SECONDS
        try:
            request = MemberGroupRequest(
                self._identity.cluster_name, self._identity.broker_name
            )
            answer = yield from answer_of(
                self._ask,
                nameserver,
                RequestCode.GET_BROKER_MEMBER_GROUP,
                encode_fields(request),
                timeout_ms=_TIMEOUT_MS,
            )
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:  # Older than 5.0.
                return self._unable(nameserver)
            if answer.code == ResponseCode.SUCCESS:
                group = decode_member_group(answer.body)
                self._told(nameserver, group.addresses.get(MASTER_ID))
        except CometError as error:  # The registrar logs it.
            _log.debug(
                "nameserver %s did not return the members of this broker's group: %s",
                nameserver,
                error,
            )
            self._forget(nameserver)
            if self.other_master() is not None:
                return PERIOD_SECONDS  # A master may have been stopped by this: notice an answer soon.
        return PERIOD_SECONDS if self._fence is None else NEVER

    def _unable(self, nameserver: str) -> float:
        """Return the pause for a nameserver that cannot list members; a slave registers there to learn its master."""
        if self._fence is not None:
            return NEVER
        self._register_at(nameserver)
        return OLD_PERIOD_SECONDS

    def _told(self, nameserver: str, master: str | None) -> None:
        if self._fence is None:
            if master is not None and master != self._masters[nameserver]:
                self._register_at(nameserver)
            self._masters[nameserver] = master
            return
        self._masters[nameserver] = master
        if self._identity.broker_addr in self._masters.values():
            self._fence.confirm()
        elif master is not None:
            self._fence.close(master, nameserver)

    def _forget(self, nameserver: str) -> None:
        """Forget the last answer of a nameserver that does not answer now; it may have gone for good.

        If then another names a rival of this master and none names this broker, it stops accepting messages. For a
        slave, an old answer must not prevent its promotion.
        """
        self._masters[nameserver] = None
        rival = self.other_master()
        if self._fence is None or rival is None:
            return
        if self._identity.broker_addr not in self._masters.values():
            self._fence.close(*rival)
