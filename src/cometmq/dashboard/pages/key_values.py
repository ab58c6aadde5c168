"""The dashboard's page of the nameservers' key-value configuration: the keys of a namespace, and changes to them."""

from starlette.responses import Response

from cometmq.dashboard.inputs import (
    TEXT_MAX,
    PageMissing,
    WrongInput,
    needed,
    page_of,
    text_of,
)
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.dashboard.paging import table_page
from cometmq.model.names import ORDER_NAMESPACE
from cometmq.model.text import in_quotes

_VALUE_MAX = 65_536  # Characters; an order configuration of many brokers is long.


async def show_values(request: PageRequest) -> Response:
    """Return an HTML page of the keys and values of a namespace (default ORDER_TOPIC_CONFIG), 100 a page."""
    namespace = text_of(request.fields, "namespace") or ORDER_NAMESPACE
    values = await request.admin.brokers.kv_values(namespace)
    return request.page(
        "key_values.html",
        "Key values",
        section="brokers",
        namespace=namespace,
        key_max=TEXT_MAX,
        part=table_page(sorted(values.items()), page_of(request.fields)),
    )


async def set_value(request: PageRequest) -> Response:
    """Set the value of a key at every nameserver, and return a redirect to its namespace.

    Raises WrongInput if the value is empty or has over 65,536 characters.
    """
    key = needed(request.fields, "key", "key")
    namespace = _named(request, key)
    value = needed(request.fields, "value", "value", most=_VALUE_MAX)
    await request.admin.brokers.set_kv_value(namespace, key, value)
    return request.go("/kv", f"The key {key} is set at every nameserver.", namespace=namespace)


async def delete_value(request: PageRequest) -> Response:
    """Delete a key at every nameserver, and return a redirect to its namespace.

    Raises PageMissing if there is no such key, and WrongInput unless the box to confirm was ticked.
    """
    needed(request.fields, "key", "key")
    # As it is listed: keys that other clients set may begin or end with spaces.
    key = request.fields["key"]
    namespace = _named(request, key)
    if key not in await request.admin.brokers.kv_values(namespace):
        raise PageMissing(f"{in_quotes(namespace, 100)} has no key {in_quotes(key, 100)}.")
    if not request.fields.get("sure"):
        raise WrongInput(
            f"The key {in_quotes(key, 100)} was not deleted: tick the box to confirm."
        )
    await request.admin.brokers.delete_kv_value(namespace, key)
    return request.go("/kv", f"The key {key} is deleted.", namespace=namespace)


def _named(request: PageRequest, key: str) -> str:
    """Return the namespace that a form names, and set the subject of the request: the namespace and this key."""
    namespace = needed(request.fields, "namespace", "namespace")
    request.subject = f"{namespace}: {key}"
    return namespace


PAGES = (
    Page("/kv", show_values),
    Page("/kv/set", set_value, "set key", show_values),
    Page("/kv/delete", delete_value, "delete key", show_values),
)
