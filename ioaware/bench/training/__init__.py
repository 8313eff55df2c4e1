"""Measure the training of GPT-2 with each attention: step time, tokens per second, loss."""
