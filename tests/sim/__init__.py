"""Simulation of broker groups: the machines on a fake disk, network and clocks, by a seed."""
