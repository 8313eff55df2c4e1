"""torch.compile without a GPU: the compiler's own Triton kernels for the fake GPU, and their launches."""
