"""Configurations of autotuned kernels, and the bytes of each."""
