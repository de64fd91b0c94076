"""Build the kernels in place: ``python setup.py build_ext --inplace``."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import setup

import sksstruct

setup(
    name="afternoon",
    packages=[],
    ext_modules=cythonize(
        "afternoon/*.pyx",
        # where the declarations of sksstruct's kernels are
        include_path=[str(Path(sksstruct.__file__).parents[1])],
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
        },
    ),
)
