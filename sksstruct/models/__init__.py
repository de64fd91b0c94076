"""Linear maps between weights and potentials; they know no optimisation."""
