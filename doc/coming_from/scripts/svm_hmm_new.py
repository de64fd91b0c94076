import joblib
import numpy as np
from sklearn.datasets import load_svmlight_files

from sksstruct import ChainCRF

# lines are "TAG qid:SENTENCE FEATURE:VALUE FEATURE:VALUE ..."
rows, tags, sentence, rows_test, tags_test, sentence_test = load_svmlight_files(
    ["train.dat", "test.dat"], query_id=True
)


def split(sentence):
    starts = np.flatnonzero(np.diff(sentence)) + 1
    return list(map(slice, [0, *starts], [*starts, len(sentence)]))


X = [rows[part] for part in split(sentence)]
y = [tags[part].astype(int) for part in split(sentence)]
X_test = [rows_test[part] for part in split(sentence_test)]
y_test = [tags_test[part].astype(int) for part in split(sentence_test)]

# as in SVMhmm, the loss is the number of wrong tags, and there are neither biases nor
# weights of first and last tags
tagger = ChainCRF(
    alpha=1 / 5,
    loss_normalization=None,
    fit_intercept=False,
    boundary=False,
    random_state=0,
)
tagger.fit(X, y)
print("accuracy", tagger.score(X_test, y_test))
np.savetxt("predicted.tags", np.concatenate(tagger.predict(X_test)), fmt="%d")
joblib.dump(tagger, "model.joblib")
