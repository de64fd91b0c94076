"""What a solver can ask of a bound model."""
