"""The dashboard's Jinja2 environment, with autoescape on, and the filters and functions that templates use."""

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cometmq.dashboard import escaping

_HERE = Path(__file__).parent
STATIC_DIR = _HERE / "static"
# Static files whose addresses carry a version (hash), so that browsers cache them until they change.
ASSET_FILES = (
    "htmx.min.js",
    "uplot.min.js",
    "uplot.min.css",
    "dashboard.js",
    "tables.js",
    "dashboard.css",
    "comet.svg",
)


def link(path: str, **fields: object) -> str:
    """Return a path with URL-encoded query fields, leaving out those that are None or empty."""
    given = {name: str(value) for name, value in fields.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def _asset(name: str) -> str:
    return f"/static/{name}?v={_VERSIONS[name]}"


def _as_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def new_environment() -> Environment:
    """Create the Jinja2 environment of all pages."""
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        {
            "show": escaping.escaped,
            "lines": escaping.escaped_lines,
            "hides": escaping.hides,
            "as_value": escaping.as_value,
            "plainly": escaping.plainly,
            "num": escaping.number,
            "sort_key": escaping.sort_key,
            "size": escaping.size,
            "moment": escaping.moment,
            "instant": escaping.instant,
            "span": escaping.span,
            "json": _as_json,
        }
    )
    made.globals["asset"] = _asset
    return made


def render(environment: Environment, template: str, values: Mapping[str, object]) -> Markup:
    """Render a template with these values, and return it as HTML text."""
    return Markup(environment.get_template(template).render(values))  # noqa: S704  It escaped them.


def _version(name: str) -> str:
    import hashlib

    path = STATIC_DIR / name
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


_VERSIONS = {name: _version(name) for name in ASSET_FILES}
