"""Kernels for the verdict on untrusted code.

Some evade an evaluator, others are sound.
"""
