"""Replay accesses through a model of the L2."""
