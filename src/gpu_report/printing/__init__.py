"""How numbers are written, and what a terminal shows."""
