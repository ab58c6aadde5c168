"""The audit: who changed what by this dashboard, when, and how it ended.

Next: cometmq.dashboard.audit
"""

from starlette.responses import Response

from cometmq.dashboard.asked import Asked, Page
from cometmq.dashboard.inputs import page_of
from cometmq.dashboard.paging import part_of


async def show_audit(asked: Asked) -> Response:
    """The last deeds, the newest first."""
    deeds = part_of(asked.works.audit.last(), page_of(asked.fields))
    return asked.page(
        "audit.html", "Audit", section="audit", deeds=deeds, reports=asked.works.csp_reports
    )


PAGES = (Page("/audit", show_audit),)
