"""Compute softmax by rows in the ways of the field, which differ in how often they read the matrix."""
