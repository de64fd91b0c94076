"""A user's program, which mypy checks with the library: see the Makefile's lint.

Types are as a user's editor shows them. Lines that are wrong say so: mypy reports a
comment that hides no error.
"""

from typing import Any, assert_type

import numpy as np

from sksstruct import (
    ChainCRF,
    FactorGraph,
    LPMAPPredictor,
    MultilabelPairwise,
    SSVMClassifier,
    SSVMPath,
    SSVMPathCV,
    Tagger,
    make_tagger,
    ssvm_path,
)
from sksstruct.datasets import load_uai, read_conll
from sksstruct.factor_graphs import FactorGraphBuilder, Potts
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.inference import Placement, bmmf, parts_max_product, viterbi
from sksstruct.inference.map import MAP_SOLVERS, TRWS, MAPResult, MAPSolver
from sksstruct.metrics import chunk_f1_score
from sksstruct.models import Graph, StructuredModel
from sksstruct.plotting import MAPDisplay, PathDisplay
from sksstruct.projections import project_simplex
from sksstruct.solvers import BCFW, SolverResult
from sksstruct.solvers.core.base import Solver
from sksstruct.utils.packed import PackedLabels, PackedSequences

X = [[[0.0, 1.0], [1.0, 0.0]], [[1.0, 1.0]]]
y = [["a", "b"], ["b"]]


def train_taggers() -> None:
    crf = ChainCRF(alpha=0.1, loss="log", solver=BCFW(tol=1e-2)).fit(X, y)
    assert_type(crf, ChainCRF)
    assert_type(crf.predict(X), np.ndarray)
    assert_type(crf.predict_proba(X, known=[["a", None], None]), list[np.ndarray])
    assert_type(crf.score([np.eye(2)], [np.array(["a", "b"])]), float)
    assert_type(crf.transition_features_, dict[tuple[Any, Any], float])
    assert_type(crf.classes_, np.ndarray)
    assert_type(crf.dual_gap_, float)
    assert_type(crf.history_, dict[str, np.ndarray])
    assert_type(crf.solver_, Solver)
    ChainCRF(loss="hings")  # type: ignore[arg-type]
    ChainCRF(alpha=None)  # type: ignore[arg-type]
    ChainCRF(max_iter=1.5)  # type: ignore[arg-type]
    crf.predict(X, exclude=[])  # type: ignore[call-arg]

    sentences = [[{"word": "he"}, {"word": "ran"}], [{"word": "ran"}]]
    tagger = make_tagger(alpha=0.01, loss="log").fit(sentences, y)
    assert_type(tagger, Tagger)
    labelings, scores = tagger.predict_topk(sentences, 3)
    assert_type(labelings, list[np.ndarray])
    assert_type(scores, list[np.ndarray])
    assert_type(chunk_f1_score(y, tagger.predict(sentences)), float | Any)

    rows = SequenceVectorizer(dtype=np.float32).fit_transform(sentences)
    assert_type(rows, PackedSequences)
    assert_type(ChainCRF().partial_fit(rows, y, classes=["a", "b"]), ChainCRF)
    assert_type(PackedSequences.open("train"), PackedSequences)
    both = PackedSequences.open("train", labels=True)
    assert_type(both, tuple[PackedSequences, PackedLabels])
    assert_type(read_conll("train.txt"), list[tuple[list[str], ...]])


class Best(StructuredModel):
    """A model may be narrower in what its inputs and outputs are."""

    def joint_feature(self, x: np.ndarray, y: int) -> np.ndarray:
        return np.eye(3)[y] * x

    def loss(self, y: int, y_hat: int) -> float:
        return float(y != y_hat)

    def decode(self, x: np.ndarray, w: np.ndarray) -> int:
        return int(np.argmax(w * x))


def train_classifiers() -> None:
    classifier = SSVMClassifier(Best(), class_weight="balanced").fit(
        np.eye(3), [0, 1, 2]
    )
    assert_type(classifier, SSVMClassifier)
    SSVMClassifier("graph").fit([Graph(np.eye(2), [(0, 1)])], [["a", "b"]])
    SSVMClassifier(model=Potts(3))  # type: ignore[arg-type]
    assert_type(MultilabelPairwise(inference="lp").fit(np.eye(3), np.eye(3)).tol, float)

    path = ssvm_path(classifier, np.eye(3), [0, 1, 2], method="heuristic")
    assert_type(path, SSVMPath)
    assert_type(path.alphas, np.ndarray)
    PathDisplay.from_path(path, y="gaps")  # type: ignore[arg-type]
    assert_type(PathDisplay.from_path(path, y="gap"), PathDisplay)
    search = SSVMPathCV(classifier, scoring="accuracy").fit(np.eye(3), [0, 1, 2])
    assert_type(search.score_at(0.1), float)


def label_graphs() -> None:
    builder = FactorGraphBuilder()
    variables = [builder.add_variable([0.0, 1.0]) for _ in range(2)]
    builder.add_factor(variables, Potts(2))
    graphs = [builder.build(), load_uai("model.uai", evidence={0: 1})]
    assert_type(graphs, list[FactorGraph])
    assert_type(graphs[0].edges, np.ndarray)
    assert_type(graphs[0].tables[0].dense(), np.ndarray)
    predictor = LPMAPPredictor(solver=TRWS(patience=10), max_seconds=1.0).fit()
    assert_type(predictor.predict(graphs), list[np.ndarray])
    predictor.predict(graphs[0])  # type: ignore[arg-type]
    result = MAP_SOLVERS["trws"](max_iter=10).solve(graphs[0])
    assert_type(result, MAPResult)
    assert_type(result.status.message, str)
    assert_type(MAPDisplay.from_result(result), MAPDisplay)
    MAPDisplay.from_result(graphs[0])  # type: ignore[arg-type]


def use_solvers(solver: BCFW, map_solver: MAPSolver, result: SolverResult) -> None:
    assert_type(solver.check(), None)
    assert_type(map_solver.solve(FactorGraph([[0, 1]])), MAPResult)
    assert_type(result.history, dict[str, np.ndarray])


def compiled() -> None:
    labeling, score = viterbi(np.zeros((3, 2)), [[0.0, 1.0], [1.0, 0.0]])
    assert_type(labeling, np.ndarray)
    assert_type(score, float)
    unary = np.zeros((2, 3, 3))
    assert_type(parts_max_product(unary, [(0, 1)], 0.0, 1.0), Placement)
    assert_type(project_simplex([0.5, 2.0], method="drop"), np.ndarray)
    project_simplex([0.5, 2.0], method="fast")  # type: ignore[arg-type]
    bmmf(viterbi, np.zeros((3, 2)), k="2")  # type: ignore[arg-type]
