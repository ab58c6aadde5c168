"""Requests 50 to 53: change accounts of ACL 1.0, and read the versions of their files; no answer has a secret.

Code 54 returned the accounts with their secrets (CVE-2024-23321). RocketMQ 4.9.8 removed it, and it is not supported
here.
"""

from collections.abc import Callable

import orjson

from cometmq.access.account_edits import AccountEdits, versions
from cometmq.access.account_files import AccountFiles
from cometmq.broker.admin.requests.access import changed
from cometmq.broker.parts import Parts
from cometmq.codec.headers.account import (
    AccountVersions,
    DeleteAccount,
    UpdateAccount,
    UpdateWhiteAddresses,
)
from cometmq.model.codes import RequestCode
from cometmq.model.data_version import DataVersion
from cometmq.net.answer import Answer
from cometmq.net.answering import by_code, by_fields, header_of
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps

# UPDATE_AND_CREATE_ACL_CONFIG_FAILED, DELETE_ACL_CONFIG_FAILED and UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED (4.9).
_UPDATE_FAILED, _DELETE_FAILED, _WHITE_FAILED = 209, 210, 211


def account_answers(parts: Parts, files: AccountFiles) -> Answers:
    """Return the handlers of requests to change accounts of ACL 1.0, and to read the versions of their files."""
    edits = AccountEdits(files, parts.clock)

    def change(request: UpdateAccount) -> Steps[Answer]:
        return _done(lambda: edits.change(request), "an account", _UPDATE_FAILED)

    def delete(request: DeleteAccount) -> Steps[Answer]:
        return _done(lambda: edits.delete(request.access_key), "an account", _DELETE_FAILED)

    def set_white(request: UpdateWhiteAddresses) -> Steps[Answer]:
        addresses, path = request.global_white_addrs, request.acl_file_full_path
        return _done(lambda: edits.set_white(addresses, path), "white addresses", _WHITE_FAILED)

    return {
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: by_fields(UpdateAccount, change),
        RequestCode.DELETE_ACL_CONFIG: by_fields(DeleteAccount, delete),
        RequestCode.GET_BROKER_CLUSTER_ACL_INFO: by_code(
            lambda: _versions_of(parts, files), header_of
        ),
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: by_fields(
            UpdateWhiteAddresses, set_white
        ),
    }


def _versions_of(parts: Parts, files: AccountFiles) -> AccountVersions:
    return AccountVersions(
        version=_json(_version(files, files.default_path)),
        all_acl_file_version=_json({path: _version(files, path) for path in files.texts}),
        broker_name=parts.settings.broker_name,
        broker_addr=parts.address,
        cluster_name=parts.settings.cluster_name,
    )


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _version(files: AccountFiles, path: str) -> dict[str, int]:
    counter, timestamp = versions(files).get(path, (0, 0))
    return DataVersion(timestamp, counter).to_json()


def _done(work: Callable[[], None], what: str, code: int) -> Steps[Answer]:
    return changed(work, what, wrong=code, failed=code)
