import numpy as np
import pytoulbar2

rng = np.random.default_rng(0)
n, k = 12, 4
unary = rng.uniform(0, 10, (n, k)).round(2)
edges = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.3]
pairwise = rng.uniform(0, 10, (len(edges), k, k)).round(2)

problem = pytoulbar2.CFN(resolution=2)
for i in range(n):
    problem.AddVariable(f"x{i}", range(k))
    problem.AddFunction([f"x{i}"], unary[i].tolist())
for (i, j), costs in zip(edges, pairwise, strict=True):
    problem.AddFunction([f"x{i}", f"x{j}"], costs.ravel().tolist())

labeling, cost, _ = problem.Solve(timeLimit=60)
print(list(labeling), round(float(cost), 2))
