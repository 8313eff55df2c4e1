"""Calibrate a GPU: measure with plain kernels what `simulate` and the roofline need and datasheets do not give."""
