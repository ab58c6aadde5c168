"""Values, rules, codes and errors; no bytes, no I/O; every layer may import it."""
