"""Semi-Markov chains: segments with labels, lengths and features.

`segments.py` is the model, with mixins for lengths (`lengths.py`) and outputs
(`outputs.py`). Outputs of any form (`forms.py`: labels, tags or lists of segments)
become integers, inputs (`inputs.py`) rows of features of positions, lengths and
candidate spans, and `_segments.pyx` (set up by `sequences.py`) is their structure;
`known.py` turns known labels of predictions and training data into its constraints.
"""
