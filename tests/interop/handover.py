"""A store that brokers of either make open one after the other."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.interop import reference
from tests.support.processes import Program, wait_until
from tests.support.programs import until_killed

Make = Callable[..., Program]


@contextmanager
def handover(
    folder: Path, settings: Mapping[str, object], *, nameserver: Make = reference.nameserver
) -> Iterator[tuple[str, Make]]:
    """A nameserver's address, and what starts a broker with these settings that clients can find; in the end all are killed.

    `begin(make)` starts it on the store in `folder / "broker"`, `begin(make, other)` on that of another folder beside it.
    """
    with ExitStack() as stack:
        names = stack.enter_context(until_killed(nameserver(folder / "nameserver"))).address

        def begin(make: Make, place: str = "broker", **more: object) -> Program:
            program = make(folder / place, names, settings={**settings, **more})
            stack.enter_context(until_killed(program))
            # The route of a broker that went without a word leads nowhere; wait for the new address.
            wait_until(
                lambda: program.address.encode() in reference.route_of(names, "TBW102"),
                seconds=60,
                what=f"the route to {program.address}",
            )
            return program

        yield names, begin
