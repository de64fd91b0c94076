from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score, hamming_loss

from sksstruct import MultilabelPairwise

X, y = make_multilabel_classification(600, 20, n_classes=6, random_state=0)
X_train, y_train, X_test, y_test = X[:400], y[:400], X[400:], y[400:]

# no pairs: one classifier for each label, with C = 1 / (n_samples * alpha)
alpha = 1 / (400 * 0.1)
relevance = MultilabelPairwise(
    alpha, loss="log", interaction_scaling=0, target="hamming", tol=1e-6
)
predicted = relevance.fit(X_train, y_train).predict(X_test)
print("wrong labels", hamming_loss(y_test, predicted))

# whole sets, with pairs if they help
classifier = MultilabelPairwise(target="subset", random_state=0).fit(X_train, y_train)
print("right sets", classifier.score(X_test, y_test))

# the default: what is best for the F1
classifier = MultilabelPairwise(random_state=0).fit(X_train, y_train)
print("micro F1", f1_score(y_test, classifier.predict(X_test), average="micro"))
