"""The dashboard's page of Spark jobs: runs, their progress, and why one failed."""

import asyncio

from starlette.responses import Response

from cometmq.dashboard.inputs import page_of, text_of
from cometmq.dashboard.jobs import job_runs
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.dashboard.paging import table_page


async def show_jobs(request: PageRequest) -> Response:
    """Return an HTML page with up to 100 of the 500 last runs of Spark jobs, last written first."""
    return await _jobs(request, "jobs.html", "Jobs")


async def jobs_part(request: PageRequest) -> Response:
    """Return the part of the page of Spark jobs that refreshes itself, the runs as in `show_jobs`, as HTML."""
    return await _jobs(request, "part_jobs.html", "")


async def _jobs(request: PageRequest, template: str, title: str) -> Response:
    find = text_of(request.fields, "find")
    folders = request.context.settings.job_folders
    # Reads files, maybe from a network file system.
    runs = await asyncio.to_thread(job_runs, folders)
    wanted = [each for each in runs if find.lower() in f"{each.job} {each.id}".lower()]
    return request.page(
        template,
        title,
        section="jobs",
        part=table_page(wanted, page_of(request.fields)),
        find=find,
        folders=[str(each) for each in folders],
    )


PAGES = (Page("/jobs", show_jobs), Page("/part/jobs", jobs_part, is_part=True))
