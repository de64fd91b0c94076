"""Steps along the gradient of one example at a time."""
