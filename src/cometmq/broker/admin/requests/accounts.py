"""Requests 50 to 53: change accounts of ACL 1.0, and read the versions of their files; no answer has a secret.

Code 54 returned the accounts with their secrets (CVE-2024-23321). RocketMQ 4.9.8 removed it, and it is not supported
here.
"""

from collections.abc import Callable

import orjson

from cometmq.access.account_edits import AccountEdits, versions
from cometmq.access.account_files import AccountFiles
from cometmq.broker.parts import Parts
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.account import (
    AccountVersions,
    DeleteAccount,
    UpdateAccount,
    UpdateWhiteAddresses,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import RequestError, SettingsError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps, elsewhere

# UPDATE_AND_CREATE_ACL_CONFIG_FAILED, DELETE_ACL_CONFIG_FAILED and UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED (4.9).
_UPDATE_FAILED, _DELETE_FAILED, _WHITE_FAILED = 209, 210, 211


class AccountHandler:
    """Handles requests to change accounts of ACL 1.0 and to read the versions of their files."""

    def __init__(self, parts: Parts, files: AccountFiles) -> None:
        self._parts = parts
        self._files = files
        self._edits = AccountEdits(files, parts.clock)
        self.answers: Answers = {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: self.change,
            RequestCode.DELETE_ACL_CONFIG: self.delete,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: self.tell_versions,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: self.set_white,
        }

    def change(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Create or change an account (UPDATE_AND_CREATE_ACL_CONFIG 50)."""
        change = decode_fields(UpdateAccount, command.fields)
        return _done(lambda: self._edits.change(change), _UPDATE_FAILED, "an account")

    def delete(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Delete an account (DELETE_ACL_CONFIG 51)."""
        access_key = decode_fields(DeleteAccount, command.fields).access_key
        return _done(lambda: self._edits.delete(access_key), _DELETE_FAILED, "an account")

    def set_white(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Set the global white addresses of an account file (UPDATE_GLOBAL_WHITE_ADDRS_CONFIG 53)."""
        request = decode_fields(UpdateWhiteAddresses, command.fields)
        return _done(
            lambda: self._edits.set_white(
                request.global_white_addrs, request.acl_file_full_path
            ),
            _WHITE_FAILED,
            "white addresses",
        )

    def tell_versions(self, _command: Command, _peer: Peer) -> Answer:
        """Answer with the versions of the account files (GET_BROKER_CLUSTER_ACL_INFO 52)."""
        files, settings = self._files, self._parts.settings
        return Answer(
            fields=encode_fields(
                AccountVersions(
                    version=_json(_version(files, files.default_path)),
                    all_acl_file_version=_json(
                        {path: _version(files, path) for path in files.texts}
                    ),
                    broker_name=settings.broker_name,
                    broker_addr=self._parts.address,
                    cluster_name=settings.cluster_name,
                )
            )
        )


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _version(files: AccountFiles, path: str) -> dict[str, int]:
    counter, timestamp = versions(files).get(path, (0, 0))
    return DataVersion(timestamp, counter).to_json()


def _done(work: Callable[[], None], code: int, what: str) -> Steps[Answer]:
    try:
        yield from elsewhere(work)
    except SettingsError as error:
        raise RequestError(code, f"{error}; nothing was changed") from None
    except OSError as error:
        why = error.strerror or "unknown error"
        raise RequestError(
            code, f"{what} cannot be written: {why}; nothing was changed"
        ) from None
    return Answer()
