"""Compare a replay with closed forms of what waves of programs read."""
