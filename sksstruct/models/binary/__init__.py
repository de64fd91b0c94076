"""Two classes and a linear score."""
