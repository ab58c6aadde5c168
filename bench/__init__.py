"""The bench: Java's broker, ours and the floor side by side, in one session. `bench/README.md` tells how."""
