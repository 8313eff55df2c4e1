"""A Python function as reductions and maps."""
