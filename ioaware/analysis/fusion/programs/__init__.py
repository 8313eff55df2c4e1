"""Represent a Python function as reductions and maps."""
