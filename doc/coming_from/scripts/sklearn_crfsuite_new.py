import joblib
from sklearn.model_selection import RandomizedSearchCV

from sksstruct import crfsuite_parameters, make_tagger, metrics

with open("names.txt") as file:
    lines = [line.split() for line in file]
sentences = [[pair.rsplit("/", 1) for pair in line] for line in lines]


def word2features(words, i):
    word = words[i]
    features = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word.istitle()": word.istitle(),
    }
    if i > 0:
        features["-1:word.lower()"] = words[i - 1].lower()
    else:
        features["BOS"] = True
    return features


def sent2features(words):
    return [word2features(words, i) for i in range(len(words))]


X = [sent2features([word for word, _ in sentence]) for sentence in sentences]
y = [[label for _, label in sentence] for sentence in sentences]
X_train, y_train, X_test, y_test = X[:8], y[:8], X[8:], y[8:]

parameters = crfsuite_parameters(
    len(X_train), c1=0.01, c2=0.1, all_possible_transitions=True
)
crf = make_tagger(**parameters, random_state=0)
crf.fit(X_train, y_train)
predicted = crf.predict(X_test)
labels = [label for label in crf.classes_ if label != "O"]
print(metrics.flat_classification_report(y_test, predicted, labels=labels))

space = {"chaincrf__alpha": [0.001, 0.01, 0.1], "chaincrf__l1_ratio": [0.0, 0.1, 0.5]}
search = RandomizedSearchCV(crf, space, n_iter=4, cv=2, random_state=0)
search.fit(X_train, y_train)

print(sorted(crf.transition_features_.items(), key=lambda item: -item[1])[:3])
marginals = crf.predict_marginals(X_test[:1])[0]
joblib.dump(crf, "names.joblib")
