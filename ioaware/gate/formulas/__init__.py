"""Formulas as text: read safely, and compared over the sizes."""
