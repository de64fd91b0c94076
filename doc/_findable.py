"""Check that newcomers' questions are answered two clicks from the landing page.

``python doc/_findable.py doc/_build/html`` fails where the page of a question is
further away, or where the search does not find it by the words of the question; where
a name on the API page has no description; and where a sidebar has no link.
"""

import json
import re
import sys
from pathlib import Path

from sphinx.search.en import SearchEnglish

# Words to search for, and the page that answers.
QUESTIONS = {
    "install": "get_started/installation",
    "save": "how_to/save_and_load",
    "pickle": "how_to/save_and_load",
    "deploy": "how_to/deploy",
    "json": "how_to/deploy",
    "entities": "get_started/first_tagger",
    "progress": "how_to/progress_and_time",
    "callbacks": "how_to/progress_and_time",
    "stop seconds": "how_to/progress_and_time",
    "probabilities": "faq",
    "confidence": "guide/tagging",
    "probability entity": "guide/tagging",
    "calibration": "guide/tagging",
    "l1 sparse": "faq",
    "own model": "auto_examples/plot_own_model",
    "thousands labels": "guide/many_labels",
    "cluster": "guide/large_data",
    "gazetteer": "guide/lexical",
    "brown clusters": "guide/lexical",
    "cite": "citing",
    "oracle": "glossary",
    "gap theorem": "explanation/hinge",
    "embedding": "guide/embeddings",
    "word vectors": "guide/embeddings",
    "conll": "how_to/tables",
    "BIOES": "glossary",
    "license": "citing",
    "GPU": "faq",
    "versions": "versions",
    "deprecation": "versions",
    "security": "security",
    "trust": "security",
    "time series": "how_to/time_series",
    "active learning": "auto_examples/plot_active_learning",
    "label next": "faq",
    "thresholds": "guide/label_sets",
    "macro f1": "guide/label_sets",
    "entities people": "auto_examples/plot_entities",
}
LINK = re.compile(r'href="([^"#:]+)\.html[#"]')
# what the theme writes where a page has no pages below it or beside it
EMPTY = re.compile(r'<div class="bd-toc-item navbar-nav">\s*</div>')

# a row of the tables of the API page: the name, and what is said about it
ROW = re.compile(r'<tr class="row-.*?title="([^"]+)".*?</td>\s*<td>(.*?)</td>', re.S)
TAG = re.compile(r"<[^>]+>")


def undescribed(html):
    """Names on the API page without a description; "api" where it has no names."""
    text = (html / "api.html").read_text(encoding="utf-8")
    rows = ROW.findall(text[text.index("<article") : text.index("</article>")])
    if not rows:
        return ["api"]
    return [name for name, said in rows if not TAG.sub("", said).strip()]


def pages_found(index, words):
    """Names of the pages that have all words."""
    language = SearchEnglish({})
    found = set(range(len(index["docnames"])))
    for word in words.split():
        if word in language.stopwords:
            continue
        pages = set()
        for terms in (index["terms"], index["titleterms"]):
            hits = terms.get(language.stem(word), [])
            pages |= set(hits if isinstance(hits, list) else [hits])
        found &= pages
    return {index["docnames"][page] for page in found}


def pages_linked(html, page):
    """Names of the pages that the text of a page links to."""
    text = (html / f"{page}.html").read_text(encoding="utf-8")
    text = text[text.index("<article") : text.index("</article>")]
    folder = (html / page).parent
    names = ((folder / name).resolve() for name in LINK.findall(text))
    return {
        name.relative_to(html).as_posix() for name in names if name.is_relative_to(html)
    }


def main(folder):
    """Print what is missing; the exit code.

    Parameters
    ----------
    folder : str
        Where the site was built.

    Returns
    -------
    code : int
        0, or 1 where a page cannot be found.
    """
    html = Path(folder).resolve()
    script = (html / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(script.removeprefix("Search.setIndex(").rstrip("; \n")[:-1])
    near = pages_linked(html, "index")
    near |= {page for first in near for page in pages_linked(html, first)}
    code = 0
    for words, page in QUESTIONS.items():
        if page not in near:
            code = 1
            print(f"{page} is more than two clicks from the landing page")
        if page not in pages_found(index, words):
            code = 1
            print(f"searching for {words!r} does not find {page}")
    for name in undescribed(html):
        code = 1
        print(f"{name} has no description on the API page")
    for path in sorted(html.rglob("*.html")):
        if EMPTY.search(path.read_text(encoding="utf-8")):
            code = 1
            print(f"{path.relative_to(html)} has an empty sidebar")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
