"""The pages that a nameserver or broker shows at its metricsPromExporterPort."""

import urllib.request
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families


def page(port: int, path: str = "/metrics") -> str:
    """The text of one of them.

    Raises:
        HTTPError: it was refused.
    """
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def samples(port: int, metric: str) -> Iterator[tuple[dict[str, str], float]]:
    """The labels and values of a metric."""
    for family in text_string_to_metric_families(page(port)):
        for sample in family.samples:
            if sample.name == metric:
                yield sample.labels, sample.value
