"""`attention` as a citizen of PyTorch: an operator for transforms, SDPA's signature, and Hugging Face's models."""
