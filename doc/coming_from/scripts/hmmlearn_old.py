import numpy as np
from hmmlearn.hmm import CategoricalHMM, GaussianHMM

# a model that is given: a fair die, and a loaded one that is changed now and then
start, transitions = np.array([0.5, 0.5]), np.array([[0.95, 0.05], [0.1, 0.9]])
emissions = np.array([[1 / 6] * 6, [0.1] * 5 + [0.5]])
rolls = np.random.RandomState(0).randint(6, size=30)
rolls[10:20] = 5

model = CategoricalHMM(n_components=2)
model.startprob_, model.transmat_, model.emissionprob_ = start, transitions, emissions
_, labeling = model.decode(rolls[:, None])
log_likelihood = float(model.score(rolls[:, None]))
probabilities = model.predict_proba(rolls[:, None])
print("loaded", labeling.sum(), "log-likelihood", log_likelihood)

# series with labels: means, variances and transitions are counted
rng = np.random.RandomState(1)
y = [np.repeat(rng.permutation(3), 20) for _ in range(20)]
X = [2 * np.eye(3)[labels] + rng.normal(size=(60, 3)) for labels in y]
X_train, y_train, X_test, y_test = X[:10], y[:10], X[10:], y[10:]

rows, states = np.concatenate(X_train), np.concatenate(y_train)
pairs = np.zeros((3, 3))
for labels in y_train:
    np.add.at(pairs, (labels[:-1], labels[1:]), 1)
tagger = GaussianHMM(3, covariance_type="diag")
tagger.startprob_ = np.bincount([labels[0] for labels in y_train], minlength=3) / 10
tagger.transmat_ = pairs / pairs.sum(axis=1, keepdims=True)
tagger.means_ = np.array([rows[states == k].mean(axis=0) for k in range(3)])
tagger.covars_ = np.array([rows[states == k].var(axis=0) for k in range(3)])
found = tagger.predict(np.concatenate(X_test), [len(x) for x in X_test])
accuracy = float(np.mean(found == np.concatenate(y_test)))
print("accuracy", accuracy)
