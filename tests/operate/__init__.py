"""What an operator runs: a cluster of processes, watched by a real Prometheus with the rules and the board of deploy/."""
