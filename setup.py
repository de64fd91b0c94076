"""Extensions only; all metadata is in pyproject.toml.

``SKSSTRUCT_DEBUG_CYTHON=1`` builds the kernels with bounds checks and writes the
annotated HTML beside the sources. ``SKSSTRUCT_SANITIZE=address,undefined``, or
``thread``, builds them with these sanitizers of the compiler.
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

debug = os.environ.get("SKSSTRUCT_DEBUG_CYTHON", "0") not in ("", "0")
directives = {
    "language_level": 3,
    "boundscheck": debug,
    "wraparound": False,
    "initializedcheck": debug,
    "cdivision": True,
    "embedsignature": True,
    "freethreading_compatible": True,
    # A tenth of the C code; nobody pickles the classes of kernels.
    "auto_pickle": False,
}
headers = sorted(str(path) for path in Path("sksstruct").rglob("*.h"))
# Debug symbols, which Python's own flags ask for, make wheels four times as large and
# the build a quarter longer. Kernels with bounds checks run in tests only.
compile_args = ["-O1" if debug else "-O3", "-g0", "-fno-math-errno"]
link_args = []
if sys.platform == "win32":
    compile_args = []
if sanitizers := os.environ.get("SKSSTRUCT_SANITIZE"):
    link_args = [f"-fsanitize={sanitizers}"]
    compile_args += [*link_args, "-O1", "-g1", "-fno-omit-frame-pointer"]
extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        depends=headers,
        include_dirs=["."],
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )
    for path in sorted(Path("sksstruct").rglob("*.pyx"))
]
# One shared copy of Cython's utility code instead of one per kernel.
shared = "sksstruct._cyutility"


def main():
    """Translate the kernels and compile them, both side by side."""
    modules = cythonize(
        [*extensions, Extension(shared, ["sksstruct/_cyutility.c"])],
        compiler_directives=directives,
        shared_utility_qualified_name=shared,
        annotate=debug,
        # elsewhere new processes would run this file again
        nthreads=os.cpu_count() if sys.platform == "linux" else 0,
    )
    setup(
        options={"build_ext": {"parallel": os.cpu_count()}},
        ext_modules=modules,
    )


if __name__ == "__main__":
    main()
