"""What was refused, for people: finding it, seeing why, and sending a mended copy."""
