"""Graphs of the experiments on MAP: files of the data folder, and generated ones."""

import gzip
import json
import tarfile

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

from sksstruct.datasets import load_uai
from sksstruct.datasets._fetch import get_data_home
from sksstruct.factor_graphs import FactorGraph


def uai(name, home):
    path = get_data_home(home) / "uai" / f"{name}.uai.gz"
    evidence = path.with_suffix("").with_suffix(".uai.evid")
    return load_uai(path, evidence=evidence if evidence.exists() else None)


def known_values(home):
    with gzip.open(get_data_home(home) / "uai" / "map_best.json.gz") as file:
        return json.load(file)


def random_domain(kind, n_states, seed=0):
    """30 variables, 60 random edges with tables of their own."""
    rng = np.random.default_rng(seed)
    edges = set()
    while len(edges) < 60:
        edges.add(tuple(sorted(rng.choice(30, 2, replace=False).tolist())))
    unaries = rng.standard_normal((30, n_states))
    tables = rng.standard_normal((60, n_states, n_states))
    # easy: the variables decide; frustrated: the edges do
    unaries *= 3.0 if kind == "easy" else 0.1
    tables *= 0.5 if kind == "easy" else 1.0
    return FactorGraph(unaries, sorted(edges), tables)


def matching(home, all_candidates, n_variables=188, n_edges=1864):
    """Part of an ego network, to be found again in the whole (Huang et al., 2017).

    Unary scores are inner products of the features of people, one table for all edges
    holds the inverse distances in the network.
    """
    path = get_data_home(home) / "facebook" / "facebook_ego.tar.gz"
    with tarfile.open(path) as tar:
        features = np.loadtxt(tar.extractfile("facebook/107.feat"), dtype=np.int64)
        lines = tar.extractfile("facebook/107.edges").read().split()
    place = {person: k for k, person in enumerate(features[:, 0].tolist())}
    ends = np.array([place[int(person)] for person in lines]).reshape(-1, 2)
    features, n = features[:, 1:], len(features)
    if not all_candidates:
        # 1034 people have friends
        keep = np.unique(ends)
        place = np.full(n, -1)
        place[keep] = np.arange(len(keep))
        ends, features, n = place[ends], features[keep], len(keep)
    network = csr_matrix((np.ones(len(ends)), ends.T), shape=(n, n))
    distance = shortest_path(network, unweighted=True)
    table = np.zeros((n, n))
    far = (distance > 0) & np.isfinite(distance)
    table[far] = 1.0 / distance[far]
    # the part: as many people as have about so many edges among themselves
    best = None
    for seed in range(400):
        rng = np.random.default_rng(seed)
        part = [int(rng.integers(n))]
        for person in part:
            around = network.indices[
                network.indptr[person] : network.indptr[person + 1]
            ]
            around = rng.permutation(around)[: rng.integers(3, 9)]
            part += [int(k) for k in around if k not in set(part)]
            if len(part) >= n_variables:
                break
        part = np.sort(part[:n_variables])
        if len(part) < n_variables:
            continue
        place = np.full(n, -1)
        place[part] = np.arange(len(part))
        inside = np.sort(place[ends], axis=1)
        inside = np.unique(inside[inside[:, 0] >= 0], axis=0)
        excess = abs(len(inside) - n_edges)
        if best is None or excess < best[0]:
            best = excess, part, inside
    _, part, inside = best
    scores = (features[part] @ features.T).astype(np.float64)
    return FactorGraph(scores, inside[:n_edges], table)


def many_labels(n=3884, n_topics=60, seed=0):
    """A complete graph of binary variables: labels of one topic attract each other."""
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(n, 1)
    topic = rng.integers(0, n_topics, n)
    weights = rng.standard_normal(len(u))
    weights *= 0.05
    weights -= 0.05
    same = topic[u] == topic[v]
    weights[same] += rng.exponential(0.15, int(same.sum()))
    unaries = np.zeros((n, 2))
    unaries[:, 1] = rng.normal(-2.0, 1.0, n)
    hot = rng.choice(n_topics, 3, replace=False)
    unaries[np.isin(topic, hot), 1] += 1.5
    edges = np.empty((len(u), 2), dtype=np.int32)
    edges[:, 0], edges[:, 1] = u, v
    del u, v, same
    table = np.array([[0.0, 0.0], [0.0, 1.0]])
    return FactorGraph(unaries, edges, table, edge_weights=weights)
