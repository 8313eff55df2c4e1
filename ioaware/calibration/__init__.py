"""Calibrate a GPU: measure what `simulate` and the roofline need.

Plain kernels measure what datasheets do not give.
"""
