"""Real faults under a group of three brokers that elects its leader, with our clients at work."""
