"""The calibration's kernels, and the process that launches them."""
