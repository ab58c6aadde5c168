"""The dashboard's audit page: logins, requested changes with their outcome; and reports of CSP violations."""

from starlette.responses import Response

from cometmq.dashboard.inputs import FormRefused, page_of
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.dashboard.paging import table_page


async def show_audit(request: PageRequest) -> Response:
    """Return a page of the audit's last 1,000 actions as HTML, newest first. Raises FormRefused unless the user is an admin."""
    if not request.session.is_admin:
        raise FormRefused(
            f"The audit is shown to admins only, but user {request.session.user} may only read; log in as an admin"
        )
    actions = table_page(request.context.audit.last(), page_of(request.fields))
    return request.page(
        "audit.html",
        "Audit",
        section="audit",
        actions=actions,
        reports=request.context.csp_reports,
    )


PAGES = (Page("/audit", show_audit),)
