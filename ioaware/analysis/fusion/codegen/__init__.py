"""Triton source of a plan."""
