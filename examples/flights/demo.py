"""Runs the demo by its path: `python examples/flights/demo.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

if __name__ == "__main__":
    from examples.flights.__main__ import main

    sys.exit(main())
