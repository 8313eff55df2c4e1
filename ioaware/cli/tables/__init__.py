"""Tables of predicted bytes on the terminal."""
