"""Check the links of the built site, without a network.

``python doc/_links.py doc/_build/html`` fails where a link within the site leads to a
page, a file or an anchor that is not there, and where a page has an anchor twice. It
lists the links that leave the site in ``external_links.txt`` beside the pages; they are
not fetched, but those that differ in ``http`` or a final slash only are one address in
two spellings, which fails too.
"""

import sys
from collections import Counter, defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes that hold a link, by tag.
_LINKS = {
    "a": "href",
    "link": "href",
    "img": "src",
    "script": "src",
    "source": "src",
    "object": "data",
}


class Page(HTMLParser):
    """The anchors and the links of a page.

    Attributes
    ----------
    anchors : Counter
        How often each anchor is there.
    links : list of str
        What the page links to, embeds or loads.
    """

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = Counter(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Note an element's anchor and its link."""
        attrs = dict(attrs)
        names = {attrs.get("id"), attrs.get("name") if tag == "a" else None}
        self.anchors.update(names - {None})
        link = attrs.get(_LINKS.get(tag))
        if link is not None:
            self.links.append(link)


def broken(html, pages):
    """Complaints about links within the site and about anchors.

    Parameters
    ----------
    html : Path
        Where the site was built.
    pages : dict of Path to Page
        Its pages.

    Yields
    ------
    complaint : str
        A line for each.
    """
    for path, page in pages.items():
        name = path.relative_to(html)
        for anchor, count in page.anchors.items():
            if count > 1:
                yield f"{name} has the anchor {anchor} {count} times"
        for link in sorted(set(page.links)):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path:
                target = (path.parent / unquote(parts.path)).resolve()
            if not target.is_file() or not target.is_relative_to(html):
                yield f"{name} links to {link}, which is not there"
            # scripts read other fragments
            elif parts.fragment and target in pages:
                if unquote(parts.fragment) not in pages[target].anchors:
                    yield f"{name} links to {link}, where there is no such anchor"


def external(pages, html):
    """Links that leave the site, and the pages that have each.

    Parameters
    ----------
    pages : dict of Path to Page
        The pages.
    html : Path
        Where the site was built.

    Returns
    -------
    links : dict of str to set of str
        Names of pages by link, sorted.
    """
    links = defaultdict(set)
    for path, page in pages.items():
        for link in page.links:
            if urlsplit(link).scheme in ("http", "https"):
                links[link].add(path.relative_to(html).as_posix())
    return dict(sorted(links.items()))


def spellings(links):
    """Addresses that are written in more than one way.

    Parameters
    ----------
    links : iterable of str
        Links.

    Returns
    -------
    groups : list of list of str
        Links that lead to the same address.
    """
    groups = defaultdict(list)
    for link in links:
        address = link.partition("://")[2].removeprefix("www.").rstrip("/")
        groups[address].append(link)
    return [group for group in groups.values() if len(group) > 1]


def main(folder):
    """Print what is wrong and how many links there are; the exit code.

    Parameters
    ----------
    folder : str
        Where the site was built.

    Returns
    -------
    code : int
        0, or 1 where a link is broken.
    """
    html = Path(folder).resolve()
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in sorted(html.rglob("*.html"))
        if "_static" not in path.relative_to(html).parts
    }
    complaints = list(broken(html, pages))
    links = external(pages, html)
    complaints += [f"one address: {', '.join(group)}" for group in spellings(links)]
    print(*complaints, sep="\n", end="\n" if complaints else "")
    (html / "external_links.txt").write_text(
        "".join(f"{link} {len(names)} {min(names)}\n" for link, names in links.items()),
        encoding="utf-8",
    )
    n_links = sum(len(page.links) for page in pages.values())
    print(f"{len(pages)} pages, {n_links} links, {len(links)} of them to other sites")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
