"""Rewrite the source of kernels for the interpreter."""
