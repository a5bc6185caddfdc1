"""Chance: reproducible random streams, draws from laws inside kernels, the laws of service and interarrival times."""
