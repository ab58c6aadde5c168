"""What things are: values, rules, codes and errors. No bytes, no I/O; every layer may import it."""
