"""The C program of the page on models without Python, and the service of its page."""

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from runpy import run_path
from threading import Thread

import pytest

from sksstruct import ChainCRF, Tagger, make_tagger
from sksstruct.feature_extraction import ColumnFeatures, SequenceVectorizer

PAGES = Path(__file__).parents[1] / "doc" / "how_to"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The compiled program, or a skip with the reason."""
    source = PAGES / "deploy" / "tag.c"
    if not source.is_file():
        pytest.skip("not a source checkout")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    out = tmp_path_factory.mktemp("c") / "tag"
    command = [compiler, "-D_POSIX_C_SOURCE=200112L", "-w", str(source), "-o", str(out)]
    folder = os.environ.get("SKSSTRUCT_CRFSUITE")
    if folder is None:
        library = ["-lcrfsuite"]
    else:
        # the sources of python-crfsuite
        root = Path(folder)
        parts = "crfsuite/include", "crfsuite/lib/cqdb/include", "liblbfgs/include"
        library = [f"-I{root / part}" for part in parts]
        for pattern in ("crf/src/*.c", "cqdb/src/cqdb.c", "cqdb/src/lookup3.c"):
            library += map(str, sorted(root.glob(f"crfsuite/lib/{pattern}")))
        library.append(str(root / "liblbfgs/lib/lbfgs.c"))
    run = subprocess.run([*command, *library, "-lm"], capture_output=True, text=True)
    if run.returncode and folder is None:
        pytest.skip(
            "libcrfsuite is not installed, and SKSSTRUCT_CRFSUITE does not name the "
            "folder of the sources of python-crfsuite"
        )
    assert run.returncode == 0, run.stderr
    return str(out)


def test_program_in_c(program, tmp_path):
    words = [["Ada", "lives", "in", "Rome"], ["Älla", "sleeps"], ["It", "rained"]]
    y = [["PER", "O", "O", "LOC"], ["PER", "O"], ["O", "O"]]
    X = [[[f"w={word}", f"end={word[-2:]}"] for word in row] for row in words]
    tagger = make_tagger(loss="log", random_state=0).fit(X, y)
    tagger.to_crfsuite(tmp_path / "model")
    X += [[["w=Ada"]], [["new"], ["w=in"], ["end=me", "w=x"]]]
    text = "\n\n".join(
        "\n".join("\t".join(item) for item in items)
        for items in tagger.crfsuite_items(X)
    )
    run = subprocess.run(
        [program, str(tmp_path / "model")], input=text.encode(), capture_output=True
    )
    assert run.returncode == 0, run.stderr
    found = [part.split("\n") for part in run.stdout.decode().strip().split("\n\n")]
    assert found == [labels.tolist() for labels in tagger.predict(X)]
    run = subprocess.run([program, str(tmp_path / "none")], capture_output=True)
    assert run.returncode == 1


def test_service():
    script = PAGES / "deploy" / "service.py"
    if not script.is_file():
        pytest.skip("not a source checkout")
    words = [["Ada", "lives", "in", "Rome"], ["It", "rained"]]
    y = [["PER", "O", "O", "LOC"], ["O", "O"]]
    steps = [("c", ColumnFeatures()), ("v", SequenceVectorizer()), ("t", ChainCRF())]
    tagger = Tagger(steps).fit(words, y)
    server = run_path(str(script))["serve"](tagger)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        # clients in eight threads, each with a connection that it keeps
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda _: _ask(server.server_port, words, 5), range(16))
            assert all(answer == [(200, y)] * 5 for answer in answers)
        for wrong, message in (
            ([[1]], "X[0]"),
            ([["Ada", 1]], "X[0]"),
            ("Ada", "X is a single str"),
            (3, "X is a single int"),
        ):
            ((status, answer),) = _ask(server.server_port, wrong, 1)
            assert status == 400 and message in answer["error"]
        # the answer comes before the text
        with closing(
            HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        ) as own:
            own.putrequest("POST", "/")
            own.putheader("Content-Length", str(2**20 + 2))
            own.endheaders()
            assert own.getresponse().status == 413
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _ask(port, sentences, times):
    """Status and content of answers over one connection."""
    answers = []
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        for _ in range(times):
            connection.request("POST", "/", json.dumps(sentences))
            response = connection.getresponse()
            answers.append((response.status, json.loads(response.read())))
    return answers
