"""Changes the role of a running broker: promotes a slave to master, or demotes a master to slave.

The order of the steps is chosen so that a handover to a named successor, without force, loses no acknowledged message,
and that a broker that is killed at any moment restarts in one definite role: the one in its conf file (`brokerRole`
and `brokerId` in FILE.overlay, which is replaced atomically). If a step fails, the broker returns to its old role, if
it can.

| a master becomes a slave | a slave becomes the master |
| --- | --- |
| check that the successor, if any, is in sync | check that its master is not connected or, if forced, silent; look for other obstacles, for fewer if forced |
| answer requests as a slave does, end the features, append no more records | stop copying |
| wait for confirmations, and until the successor, if any, has the whole log and the tables | dispatch all of the log |
| **write the role slave into the file** | **write the role master into the file** |
| begin as a slave | begin as a master, as at a start after the role was changed in the file |
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from contextlib import suppress

from cometmq.broker.role import Ground, MasterRole, RunningRole, SlaveRole, role_of
from cometmq.broker.settings.broker_settings import BrokerRole
from cometmq.codec.headers.replication import RoleChange, RoleChanged
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CometError, RequestError, SettingsError, invalid_parameter
from cometmq.model.route import MASTER_ID
from cometmq.net.tasks import Tasks
from cometmq.steps.steps import Done, Steps, called_back
from cometmq.store.conf_file import ConfFile

_log = logging.getLogger(__name__)

_ROLE, _ID = "brokerRole", "brokerId"


class RoleChanges:
    """The current role of a running broker (`role`), which can be changed."""

    def __init__(self, ground: Ground, conf: ConfFile | None) -> None:
        """`conf` is the file that stores the role for the next start; without it the role cannot be changed."""
        self.role: RunningRole = role_of(ground)
        self._ground = ground
        self._conf = conf
        self._in_force = ground.parts.in_force
        self._tasks = Tasks("role")
        self._change: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Wait for the change in progress, if any, then stop the jobs of the role and unregister at the nameservers."""
        if self._change is not None:
            await asyncio.wait([self._change])
        await self._tasks.close()
        await self.role.leave(is_final=True)

    def change(self, wish: RoleChange) -> Steps[RoleChanged]:
        """Change the role; return the new broker id and the log's end. The change goes on if the caller disconnects.

        Raises:
            RequestError: Another change is in progress, or this one is not possible or has failed. After a failure the
                broker returns to its old role, if it can. Some failures are raised as other errors.
        """
        if self._change is not None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                "the role of this broker is already being changed; check its role, then try again",
            )

        def begin(done: Done) -> None:
            self._change = self._tasks.spawn(self._tell_change(wish, done), "change")

        changed: RoleChanged = yield from called_back(begin)
        return changed

    async def _tell_change(self, wish: RoleChange, done: Done) -> None:
        changed, failed = None, None
        try:
            changed = await self._changed(wish)
        except Exception as error:  # noqa: BLE001  The steps raise it.
            failed = error
        self._change = None
        done(changed, failed)

    async def _changed(self, wish: RoleChange) -> RoleChanged:
        if wish.broker_id is None:
            raise RequestError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                " request type 1008 not supported without brokerId: this broker has no controller to assign one; send the new "
                "brokerId, 0 for the master",
            )
        values = self._values_of(wish)
        if self._ground.parts.store.needs_restart:
            raise _refused(f"its store needs a restart: {self._ground.parts.store.refusal}")
        await asyncio.get_running_loop().run_in_executor(
            self._ground.parts.pool, self._check_file
        )
        _log.warning("the change to the role %s with brokerId=%s begins", *values.values())
        if wish.broker_id == MASTER_ID:
            return await self._promote(wish, values)
        return await self._demote(wish, values)

    def _values_of(self, wish: RoleChange) -> dict[str, str]:
        """Return the settings of the requested role; raise RequestError (INVALID_PARAMETER) if they are invalid."""
        role = wish.broker_role or BrokerRole.ASYNC_MASTER.name
        if wish.broker_id != MASTER_ID:
            role = BrokerRole.SLAVE.name
        values = {_ROLE: role, _ID: str(wish.broker_id)}
        try:
            self._in_force.read(values)
        except SettingsError as error:
            raise invalid_parameter(str(error)) from None
        return values

    def _check_file(self) -> None:
        """Check that there is a conf file, that it has the current role, and that nothing overrides it; raise RequestError if not.

        Runs in a thread.
        """
        if self._conf is None or self._conf.path is None:
            raise _refused(
                "it was started without a conf file, so the next start would forget the new role; "
                "start it with -c and a conf file"
            )
        for layer in self._conf.above:
            for key in layer.values.keys() & {_ROLE, _ID}:
                raise _refused(
                    f"{key} comes from the {layer.origin}, which overrides its conf file also at the next start; write the "
                    "role into the conf file only"
                )
        said: dict[str, str] = {_ROLE: BrokerRole.ASYNC_MASTER.name, _ID: str(MASTER_ID)}
        try:
            for layer in self._conf.layers():
                said |= {key: text.strip() for key, text in layer.values.items() if key in said}
        except CometError as error:
            raise _refused(f"its conf file cannot be read: {error}") from error
        if said != self._now():
            raise _refused(
                f"its conf file has {_ROLE}={said[_ROLE]} and {_ID}={said[_ID]}, which is not its role; was the file changed "
                "since the start? Correct the file, or start the broker again"
            )

    def _now(self) -> dict[str, str]:
        settings = self._in_force.current
        return {_ROLE: settings.broker_role.name, _ID: str(settings.broker_id)}

    # --- the two changes

    async def _demote(self, wish: RoleChange, values: Mapping[str, str]) -> RoleChanged:
        role, successor = self.role, wish.master_broker_id
        if not isinstance(role, MasterRole):
            raise _refused("it is a slave already")
        role.check_successor(successor)
        end = await self._replace(role.hand_over(successor), values)
        _log.warning(
            "this broker is a slave now, with brokerId=%s; its log ends at %d", values[_ID], end
        )
        return RoleChanged(int(values[_ID]), end)

    async def _promote(self, wish: RoleChange, values: Mapping[str, str]) -> RoleChanged:
        role = self.role
        if not isinstance(role, SlaveRole):
            raise _refused("it is a master already")
        await role.check_promotable(wish.log_end, is_forced=wish.is_forced)
        end = await self._replace(role.stop_copying(), values)
        _log.warning("this broker is the master now; its log ends at %d", end)
        return RoleChanged(MASTER_ID, end)

    async def _replace(
        self, leaving: Coroutine[None, None, int], values: Mapping[str, str]
    ) -> int:
        """Leave the old role, write the new one into the file, begin it, and return the end of the log at that time.

        If a step fails, try to restore the old role, also in the file, and raise an error.
        """
        before = self._now()
        try:
            end = await leaving
            await self._keep(values, before)
        except Exception as error:
            await self._go_back(before, error)
            raise
        try:
            await self._become(values)
        except Exception as error:
            with suppress(RequestError):  # It is logged, and the next start has the new role.
                await self._keep(before, before)
            await self._go_back(before, error)
            raise _refused(f"it could not start as {values[_ROLE]}: {error}") from error
        return end

    async def _go_back(self, before: Mapping[str, str], error: Exception) -> None:
        _log.error("this broker returns to its old role %s: %s", before[_ROLE], error)
        try:
            await self._become(before)
        except Exception as failure:
            why = (
                f"this broker could not return to its old role {before[_ROLE]} ({failure}): it accepts no messages, and "
                "only answers what a slave answers; restart it"
            )
            _log.critical("%s", why)
            raise RequestError(ResponseCode.SYSTEM_ERROR, why) from failure

    async def _become(self, values: Mapping[str, str]) -> None:
        """End the current role, and begin that of these settings."""
        await self.role.leave(is_final=False)
        await self.role.end()
        if values != self._now():
            self._in_force.change(values, is_own=True)
        self.role = role_of(self._ground)
        await self.role.begin()
        await self.role.announce()

    async def _keep(self, values: Mapping[str, str], before: Mapping[str, str]) -> None:
        """Write the role into the file; if the disk fails, try to keep the role `before` there, and raise an error."""

        def keep() -> None:
            try:
                self._in_force.keep(values)
            except OSError:
                # The new file may be in place already, if its directory could not be synced.
                self._in_force.keep(before)
                raise

        try:
            await asyncio.get_running_loop().run_in_executor(self._ground.parts.pool, keep)
        except OSError as error:
            why = error.strerror or error
            _log.error("the role cannot be written into the overlay of the conf file: %s", why)
            raise _refused(f"the overlay of its conf file cannot be written: {why}") from error


def _refused(why: str) -> RequestError:
    return RequestError(
        ResponseCode.SYSTEM_ERROR, f"the role of this broker is unchanged: {why}"
    )
