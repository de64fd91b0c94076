import numpy as np

from sksstruct import ChainCRF
from sksstruct.inference import forward_backward, viterbi

# a model that is given: a fair die, and a loaded one that is changed now and then
start, transitions = np.array([0.5, 0.5]), np.array([[0.95, 0.05], [0.1, 0.9]])
emissions = np.array([[1 / 6] * 6, [0.1] * 5 + [0.5]])
rolls = np.random.RandomState(0).randint(6, size=30)
rolls[10:20] = 5

unary, pairwise = np.log(emissions[:, rolls].T), np.log(transitions)
unary[0] += np.log(start)
labeling, _ = viterbi(unary, pairwise)
log_likelihood, probabilities, _ = forward_backward(unary, pairwise)
print("loaded", labeling.sum(), "log-likelihood", log_likelihood)

# series with labels: the tagger is trained
rng = np.random.RandomState(1)
y = [np.repeat(rng.permutation(3), 20) for _ in range(20)]
X = [2 * np.eye(3)[labels] + rng.normal(size=(60, 3)) for labels in y]
X_train, y_train, X_test, y_test = X[:10], y[:10], X[10:], y[10:]

tagger = ChainCRF(loss="log", random_state=0).fit(X_train, y_train)
accuracy = tagger.score(X_test, y_test)
print("accuracy", accuracy)
