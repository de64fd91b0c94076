from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, hamming_loss
from skmultilearn.problem_transform import BinaryRelevance, LabelPowerset

X, y = make_multilabel_classification(600, 20, n_classes=6, random_state=0)
X_train, y_train, X_test, y_test = X[:400], y[:400], X[400:], y[400:]

relevance = BinaryRelevance(LogisticRegression(C=0.1, max_iter=1000))
predicted = relevance.fit(X_train, y_train).predict(X_test).toarray()
print("wrong labels", hamming_loss(y_test, predicted))

powerset = LabelPowerset(LogisticRegression(C=0.1, max_iter=1000))
sets = powerset.fit(X_train, y_train).predict(X_test).toarray()
print("right sets", (sets == y_test).all(axis=1).mean())
print("micro F1", f1_score(y_test, sets, average="micro"))
