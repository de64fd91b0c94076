"""What every solver may ask of what it trains."""


class Trainable:
    """Base of bound models that are no `BoundModel`, which has the same defaults.

    Their data are those of bound models that they wrap, or have no labelings.
    `BoundModel` states the attributes.
    """

    oracles: tuple[str, ...] = ()
    oracle_note = oracle_bounds = surrogate = preferred_solver = None
    views_need_data = likelihood = False
    prefers_sums = False
    # labels that were not observed
    unknown = None

    def box(self, bounds=None):
        """Bounds on weights, of which there are none."""
        return None
