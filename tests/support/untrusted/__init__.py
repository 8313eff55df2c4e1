"""Kernels for the verdict on untrusted code: ones that evade an evaluator, and sound ones."""
