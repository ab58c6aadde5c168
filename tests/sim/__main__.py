"""Runs scenes by seeds: `python -m tests.sim --runs 100 --seed 1 --scene storm`.

Prints the trace's hash of a single run, and of failed ones how to repeat them. With `--planted`, prints for each planted bug
the first seed that finds it.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable

from tests.sim.brokers import BrokerGroup, brokers
from tests.sim.group import Group
from tests.sim.planted import FOUND_BY, first_seed
from tests.sim.scenes import SCENES

ALL_SCENES: dict[str, Callable[[int], Group | BrokerGroup]] = {**SCENES, "brokers": brokers}
ALL = "all"
FAILED_MAX = 3
PLANTED_SEEDS = range(1, 501)


def main() -> int:
    """Run; return the exit status."""
    parser = argparse.ArgumentParser(prog="tests.sim")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--scene", choices=[*ALL_SCENES, ALL], default="storm")
    parser.add_argument("--planted", action="store_true")
    given = parser.parse_args()
    if given.planted:
        return sum(not _is_found(bug, scene) for bug, scene, _ in FOUND_BY) and 1
    seeds = range(given.seed, given.seed + given.runs)
    scenes = [*ALL_SCENES] if given.scene == ALL else [given.scene]
    return sum(not _passes(scene, seeds) for scene in scenes) and 1


def _passes(scene: str, seeds: range) -> bool:
    """Run a scene with all seeds, or until three have failed; return whether none has."""
    began = time.process_time()
    failed, acknowledged, terms = 0, 0, 0
    for seed in seeds:
        try:
            group = ALL_SCENES[scene](seed)
        except Exception:  # Real parts may raise anything; the next seeds are still run.
            failed += 1
            traceback.print_exc(limit=-3)
            print(f"repeat it: make sim SEED={seed} RUNS=1 SCENE={scene}", flush=True)
            if failed == FAILED_MAX:
                break
            continue
        acknowledged += group.checks.acknowledged_count
        terms += len(group.checks.leaders)
        if len(seeds) == 1:
            print(f"trace {group.trace}")
    print(
        f"{len(seeds)} runs of {scene}, {acknowledged:,} records acknowledged by {terms:,} leaders, {failed} failed, "
        f"{time.process_time() - began:.1f} s of processor time",
        flush=True,
    )
    return not failed


def _is_found(bug: str, scene: str) -> bool:
    """Search the first seed that finds a planted bug, and print it; return whether there is one."""
    seed = first_seed(bug, SCENES[scene], PLANTED_SEEDS)
    found = "not found" if seed is None else f"found by SEED={seed}"
    print(f"{bug}: {found} SCENE={scene}", flush=True)
    return seed is not None


if __name__ == "__main__":
    sys.exit(main())
