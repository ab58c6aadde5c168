"""Whether a broker is well: /healthz says whether its loop turns, /readyz whether it can do its work, in words."""

from cometmq.broker.parts import Parts


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
        return f"ready: {role}, recovered, registered, its log takes messages"

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
