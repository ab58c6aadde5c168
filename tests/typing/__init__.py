"""Programs as users write them, one for each client class, that type checkers must accept in their strictest mode.

`make types` checks them with mypy and pyright; `tests/e2e/test_typed_programs.py` runs them.
"""
