"""Judge untrusted kernels: trial runs, and rules that no sound kernel breaks."""
