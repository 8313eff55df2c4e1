"""Prove that no finite state computes a program in one pass."""
