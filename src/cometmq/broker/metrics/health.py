"""Whether a broker is well: /healthz says whether its loop turns, /readyz whether it can do its work, in words."""

from cometmq.broker.parts import Parts
from cometmq.broker.tables.replication_state import MasterState


class Health:
    """Says how a broker is. That it answers says that its loop turns."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._started_ms = parts.clock.now_ms()

    def alive(self) -> str:
        """The line that says that the loop turns, and for how long the broker has run."""
        seconds = (self._parts.clock.now_ms() - self._started_ms) // 1000
        return f"ok: broker {self._parts.settings.broker_name} answers, since {seconds} s"

    def ready(self) -> str:
        """The line of a broker that is ready: recovered, known to a nameserver, and able to store."""
        role = self._parts.settings.broker_role.name
        master = self._parts.replication().master
        work = "its log takes messages" if master is None else self._copying(master)
        return f"ready: {role}, recovered, registered, {work}"

    def _copying(self, master: MasterState) -> str:
        """Whether a slave copies its master, which does not make it less ready: what it has can be read."""
        name = master.address or "its master, which no nameserver names"
        if master.stopped is not None:
            return f"it copies nothing any more from {name}: {master.stopped}"
        if master.is_active:
            return f"it copies {name}"
        why = f": {master.error}" if master.error else ""
        return f"it copies nothing now from {name}, and tries again{why}"

    def faults(self) -> list[str]:
        """The faults that keep a broker from being ready, each with what to do; empty where all is well."""
        parts, faults = self._parts, []
        store, settings = parts.store, parts.settings
        if store.refusal is not None:
            faults.append(f"the store takes no message: {store.refusal}")
        elif store.positions.refusal is not None:
            faults.append(f"no message is taken: {store.positions.refusal}")
        if not settings.perm & 2 and not settings.is_slave:
            faults.append("brokerPermission allows no writing (a drain?); set it to 6 again")
        missing = self.unregistered()
        if missing:
            faults.append(
                f"not registered at {', '.join(missing)}; is a nameserver running there?"
            )
        return faults

    def unregistered(self) -> list[str]:
        """Nameservers that do not know this broker, where none does."""
        addresses = self._parts.settings.nameserver_addresses
        known = self._parts.registered()
        return [] if not addresses or known else list(addresses)
