"""One training method over blocks of the data, on threads or on machines (CoCoA+)."""
