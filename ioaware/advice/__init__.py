"""Rank the choices that a target leaves open by predicted bytes and time."""
