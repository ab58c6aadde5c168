"""Values, rules, codes and errors, without wire formats and without I/O; every layer may import it."""
