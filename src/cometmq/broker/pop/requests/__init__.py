"""Request handlers of pop: pops, acknowledgements, invisible times, notifications, assignments."""
