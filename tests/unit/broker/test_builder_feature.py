"""A feature that builds something from the log, as the next one will: added to the list, started and closed with the broker."""

from __future__ import annotations

from cometmq.broker.features import FEATURES
from cometmq.broker.parts import Feature, Parts
from cometmq.model.codes import RequestCode
from cometmq.steps.on_loop import Machines
from cometmq.steps.steps import Steps, elsewhere
from tests.support.log_builder import PlacesBuilder
from tests.support.request_fields import send_fields
from tests.unit.broker.conftest import eventually, serve


class Places(Feature):
    """Notes where each message is in the log, in a folder of the store."""

    made: Places

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._machines = Machines(parts.world, "places")
        self.builder = PlacesBuilder(
            parts.disk, folder=f"{parts.settings.store_directory}/places"
        )
        Places.made = self

    async def start(self) -> None:
        self._follower = self._store.follow(self.builder)
        self._machines.keep("follower", self._build)

    async def close(self) -> None:
        await self._machines.close()
        self._store.unfollow(self._follower)

    def _build(self) -> Steps[float]:
        step = self._follower.due()
        if step is None:
            return 0.1
        yield from elsewhere(step)
        return 0.0


async def test_a_feature_builds_from_the_log_and_goes_on_where_it_was_after_a_restart(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("cometmq.broker.role.FEATURES", (*FEATURES, Places))
    places: list[int] = []
    for _ in range(2):
        async with serve(tmp_path) as served:
            assert Places.made.builder.places == places
            for _ in range(3):
                answer = await served.ask(
                    RequestCode.SEND_MESSAGE_V2, send_fields("Orders"), b"x"
                )
                places.append(int(answer.fields["msgId"][-16:], 16))
            await eventually(lambda: Places.made.builder.places == places)
            (hold,) = [each.hold() for each in served.broker._store._directory.derived[3:]]
            assert hold.offset == Places.made.builder.position
