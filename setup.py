"""Extensions only; all metadata is in pyproject.toml.

``SKSSTRUCT_DEBUG_CYTHON=1`` builds the kernels with bounds checks; with "annotate" it
also writes the annotated HTML beside the sources. ``SKSSTRUCT_SANITIZE`` builds them
with sanitizers of the compiler: ``address,undefined``, or ``thread``.
``SKSSTRUCT_WARNINGS=error`` makes an error of each warning that Cython gives.
``SKSSTRUCT_COMPILED=1`` installs what ``build_ext --inplace`` has compiled: an editable
installation would compile everything again.
"""

import gzip
import io
import os
import re
import sys
import tarfile
from itertools import count
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.modified import newer_group

kind = os.environ.get("SKSSTRUCT_DEBUG_CYTHON", "0")
debug, annotate = kind not in ("", "0"), kind == "annotate"
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
# A quarter of the C code, which only readers of it need.
Options.emit_code_comments = annotate
Options.warning_errors = os.environ.get("SKSSTRUCT_WARNINGS") == "error"
# Debug symbols, which Python's own flags ask for, make wheels four times as large and
# the build a quarter longer. Kernels with bounds checks run in tests only.
compile_args = ["-O1" if debug else "-O3", "-g0", "-fno-math-errno"]
# Names of functions that nobody can call are a tenth of a wheel.
link_args = ["-Wl,-s"] if sys.platform == "linux" and not debug else []
# No exception passes through kernels.
if not debug:
    compile_args.append("-fno-asynchronous-unwind-tables")
if sys.platform == "win32":
    compile_args = []
# Faster ways around Python's own functions, where kernels call those. Without them the
# build takes a sixth less, and wheels are a fifteenth smaller.
no_shortcuts = [
    (f"CYTHON_{name}", "0")
    for name in (
        "FAST_THREAD_STATE",
        "UNPACK_METHODS",
        "USE_FREELISTS",
        "USE_PYLIST_INTERNALS",
        "USE_PYLONG_INTERNALS",
        "USE_UNICODE_INTERNALS",
    )
]
if sanitizers := os.environ.get("SKSSTRUCT_SANITIZE"):
    link_args = [f"-fsanitize={sanitizers}"]
    compile_args += [*link_args, "-O1", "-g1", "-fno-omit-frame-pointer"]


def extension(name, source):
    return Extension(
        name,
        [source],
        include_dirs=["."],
        define_macros=list(no_shortcuts),
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )


extensions = [
    extension(".".join(path.with_suffix("").parts), str(path))
    for path in sorted(Path("sksstruct").rglob("*.pyx"))
]
# One shared copy of Cython's utility code instead of one per kernel.
shared = "sksstruct._cyutility"
# The row kernels, sksstruct/utils/_simd.h, and the options of their instruction sets
kernels = "sksstruct.utils._simd"
avx2 = ["-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2", "-mlzcnt", "-mmovbe"]
avx512 = ["-mavx512f", "-mavx512bw", "-mavx512cd", "-mavx512dq", "-mavx512vl"]
# gcc would take loops over eight or sixteen labels apart before it looks for vectors in
# them: Viterbi with so few labels takes twice as long then. clang does not, and warns.
whole = ["--param=max-completely-peel-times=7", "-Wno-unused-command-line-argument"]
levels = {
    "baseline": [],
    "avx2": [*avx2, *whole],
    "avx512": [*avx2, *avx512, "-mprefer-vector-width=512", *whole],
}
microsoft = {"baseline": [], "avx2": ["/arch:AVX2"], "avx512": ["/arch:AVX512"]}


def with_included(headers):
    """Return headers and what these include, in order; those of the system not."""
    found, left = set(), list(headers)
    while left:
        header = left.pop()
        if header not in found and Path(header).is_file():
            found.add(header)
            left += re.findall(r'^#include "(.*)"', Path(header).read_text(), re.M)
    return sorted(found)


class BuildExt(build_ext):
    """Compile the row kernels once for each instruction set, into one extension."""

    def finalize_options(self):
        super().finalize_options()
        # here, as an editable install forgets what `setup` was told
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self):
        stale = [ext for ext in self.extensions if self.is_stale(ext)]
        self.numbers, self.n_stale = count(1), len(stale)
        super().build_extensions()

    def is_stale(self, ext):
        """Whether a module has to be compiled."""
        path = self.get_ext_fullpath(ext.name)
        return self.force or newer_group([*ext.sources, *ext.depends], path)

    def build_extension(self, ext):
        if not self.is_stale(ext):
            return
        print(f"[{next(self.numbers)}/{self.n_stale}] Compiling {ext.name}", flush=True)
        if ext.name == kernels:
            # universal2: both processors in one file
            universal = self.plat_name.endswith("universal2")
            x86 = universal or self.plat_name.endswith(("x86_64", "amd64"))
            if x86:
                ext.define_macros.append(("SKS_X86_LEVELS", None))
            for level in levels if x86 else ["baseline"]:
                ext.extra_objects += self.compile_level(ext, level, universal)
        super().build_extension(ext)

    def compile_level(self, ext, level, universal):
        """Return the objects of one instruction set."""
        if self.compiler.compiler_type == "msvc":
            options = microsoft[level]
        else:
            options = levels[level]
            if universal:
                options = [part for o in options for part in ("-Xarch_x86_64", o)]
            # gcc's way, so that compilers agree on digits; no vector crosses a call
            options = [*options, "-ffp-contract=fast", "-Wno-psabi"]
        source = Path(self.build_temp, f"simd_{level}.c")
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text('#include "sksstruct/utils/_simd_kernels.h"\n')
        return self.compiler.compile(
            [str(source)],
            output_dir=self.build_temp,
            macros=[("SKS_LEVEL", level)],
            include_dirs=ext.include_dirs,
            extra_postargs=[*ext.extra_compile_args, *options],
        )


class Sdist(sdist):
    """Archives that depend on the sources alone if ``SOURCE_DATE_EPOCH`` is set."""

    def make_archive(self, base_name, format, *args, **options):
        path = super().make_archive(base_name, format, *args, **options)
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if format == "gztar" and epoch:
            rewrite(Path(path), int(epoch))
        return path


def rewrite(path, epoch):
    """Write an archive again, with one date, without owners, and in order of names."""
    with tarfile.open(path) as archive:
        members = sorted(archive.getmembers(), key=lambda member: member.name)
        parts = [archive.extractfile(member) for member in members]
        contents = [part and io.BytesIO(part.read()) for part in parts]
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for member, content in zip(members, contents, strict=True):
            member.mtime, member.uid, member.gid = epoch, 0, 0
            member.uname = member.gname = ""
            # which would say the date again
            member.pax_headers = {}
            member.mode = 0o755 if member.mode & 0o100 else 0o644
            archive.addfile(member, content)


def translated():
    """Return the modules, in C, several at a time."""
    modules = cythonize(
        [*extensions, extension(shared, "sksstruct/_cyutility.c")],
        compiler_directives=directives,
        shared_utility_qualified_name=shared,
        annotate=annotate,
        # elsewhere new processes would run this file again
        nthreads=os.cpu_count() if sys.platform == "linux" else 0,
    )
    for module in modules:
        # Cython has found what a module declares, and not what that includes
        own = ["sksstruct/utils/_simd_kernels.h"] if module.name == kernels else []
        module.depends = with_included([*module.depends, *own])
    # what takes longest first
    return sorted(modules, key=lambda module: module.name != kernels)


def main():
    """Compile the modules, several at a time."""
    compiled = os.environ.get("SKSSTRUCT_COMPILED", "0") not in ("", "0")
    setup(
        cmdclass={"build_ext": BuildExt, "sdist": Sdist},
        ext_modules=[] if compiled else translated(),
    )


if __name__ == "__main__":
    main()
