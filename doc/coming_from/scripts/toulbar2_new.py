import numpy as np

from sksstruct import FactorGraph, LPMAPPredictor

rng = np.random.default_rng(0)
n, k = 12, 4
unary = rng.uniform(0, 10, (n, k)).round(2)
edges = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.3]
pairwise = rng.uniform(0, 10, (len(edges), k, k)).round(2)

# scores are maximized, so costs change their sign
problem = FactorGraph(-unary, edges, list(-pairwise))

predictor = LPMAPPredictor(max_seconds=60, random_state=0).fit()
labeling = predictor.predict([problem])[0]
assert predictor.status_ == ["optimal"]
print(labeling.tolist(), round(-float(predictor.scores_[0]), 2))
