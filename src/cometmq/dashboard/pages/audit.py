"""The audit: who changed what by this dashboard, when, and how it ended."""

from starlette.responses import Response

from cometmq.dashboard.inputs import page_of
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.dashboard.paging import table_page


async def show_audit(request: PageRequest) -> Response:
    """The last actions, the newest first."""
    actions = table_page(request.context.audit.last(), page_of(request.fields))
    return request.page(
        "audit.html",
        "Audit",
        section="audit",
        actions=actions,
        reports=request.context.csp_reports,
    )


PAGES = (Page("/audit", show_audit),)
