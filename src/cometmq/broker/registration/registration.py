"""Runs the registrar on the broker's loop: starts and stops its jobs, and unregisters a broker that leaves."""

from collections.abc import Callable

from cometmq.broker.registration.nameserver_calls import AskNameservers
from cometmq.broker.registration.registrar import Registrar, RegistrarSettings
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.codec.bodies.topic_config import TopicTable
from cometmq.codec.headers.nameserver import BrokerIdentity
from cometmq.steps.on_loop import Machines
from cometmq.steps.runner import Timers, World


def registrar_of(
    settings: BrokerSettings,
    address: str,
    topics: Callable[[], TopicTable],
    *,
    ha_address: str,
    ask: AskNameservers,
    timers: Timers,
) -> Registrar:
    """Create the registrar of a broker with these settings, which clients reach at `address`."""
    return Registrar(
        settings.nameserver_addresses,
        BrokerIdentity(
            broker_name=settings.broker_name,
            broker_addr=address,
            cluster_name=settings.cluster_name,
            broker_id=settings.broker_id,
        ),
        topics,
        ha_address=ha_address,
        ask=ask,
        timers=timers,
        settings=RegistrarSettings(
            period_ms=settings.register_period_ms,
            timeout_ms=settings.register_timeout_ms,
            is_compressed=settings.is_registration_compressed,
        ),
    )


class Registration:
    """Starts and stops the background jobs of a broker's registrar."""

    def __init__(self, registrar: Registrar, world: World) -> None:
        self.registrar = registrar
        self._machines = Machines(world, "registrar")

    async def start(self) -> None:
        """Register at all nameservers; return when each has answered or failed, or at the timeout."""
        await self._machines.run(self.registrar.start(self._machines.keep))

    async def close(self, *, leaves: bool = True) -> None:
        """Stop the jobs; if the broker `leaves`, unregister from nameservers that accepted the last registration."""
        await self._machines.close()
        if leaves:
            await self._machines.run(self.registrar.leave())
