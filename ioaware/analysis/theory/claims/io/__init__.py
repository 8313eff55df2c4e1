"""Check claims on how many elements or bytes move, and on what fits on chip."""
