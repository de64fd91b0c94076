import joblib
import numpy as np
from sklearn.datasets import load_svmlight_files

from sksstruct import SSVMClassifier
from sksstruct.models import MulticlassModel

# lines are "CLASS FEATURE:VALUE FEATURE:VALUE ..."
X, y, X_test, y_test = load_svmlight_files(["train.dat", "test.dat"])

model = MulticlassModel(fit_intercept=False)
classifier = SSVMClassifier(model, alpha=100 / 5000, random_state=0)
classifier.fit(X, y.astype(int))
print("accuracy", classifier.score(X_test, y_test.astype(int)))
scores = classifier.decision_function(X_test)
np.savetxt("predictions.txt", np.column_stack([classifier.predict(X_test), scores]))
joblib.dump(classifier, "model.joblib")
