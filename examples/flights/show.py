"""Shows the demo's result: a table on the terminal and a chart in a file."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.table import Table

from examples.flights.table import Delays, Group


def carriers_table(delays: Mapping[Group, Delays]) -> Table:
    """A line for each carrier, with its best and worst hour."""
    table = Table(title="Departure delays by carrier, New York 2013, minutes")
    for name in ("carrier", "flights", "departures", "mean", "best hour", "worst hour"):
        table.add_column(name, justify="left" if name == "carrier" else "right")
    for carrier in sorted({carrier for carrier, _ in delays}):
        hours = {hour: each for (name, hour), each in delays.items() if name == carrier}
        departures = sum(each.departures for each in hours.values())
        total = sum((each.mean or 0) * each.departures for each in hours.values())
        tails = {
            hour: each.percentile for hour, each in hours.items() if each.percentile is not None
        }
        best, worst = (choose(tails, key=lambda hour: tails[hour]) for choose in (min, max))
        table.add_row(
            carrier,
            f"{sum(each.flights for each in hours.values()):,}",
            f"{departures:,}",
            f"{total / departures:.1f}",
            f"{best:02}h  p95 {tails[best]:.0f}",
            f"{worst:02}h  p95 {tails[worst]:.0f}",
        )
    return table


def draw_chart(delays: Mapping[Group, Delays], path: Path) -> None:
    """The 95th percentile of the delay by carrier and hour, as a picture."""
    from matplotlib.figure import Figure

    carriers = sorted({carrier for carrier, _ in delays})
    hours = sorted({hour for _, hour in delays})
    cells = np.full((len(carriers), len(hours)), np.nan)
    for (carrier, hour), each in delays.items():
        if each.percentile is not None:
            cells[carriers.index(carrier), hours.index(hour)] = each.percentile
    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.subplots()
    picture = axes.imshow(cells, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(hours)), [f"{hour}h" for hour in hours])
    axes.set_yticks(range(len(carriers)), carriers)
    axes.set_title("95th percentile of the departure delay, minutes (New York, 2013)")
    axes.set_xlabel("scheduled hour")
    axes.set_ylabel("carrier")
    figure.colorbar(picture, ax=axes)
    figure.savefig(path, dpi=120)
