"""Names of features, possibly millions: compared and written as one text."""

import json
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

# Keys of the dict that `FeatureNames.packed` returns.
_TEXT, _LENGTHS = "names_utf8", "names_lengths"
# Key that this dict has only if the names have spellings.
_SPELLINGS = "names_spellings"


def check_spellings(spellings):
    """Return spellings as a list of pairs of strings, for input from damaged files."""
    pairs = isinstance(spellings, list | tuple) and all(
        isinstance(pair, list | tuple) and list(map(type, pair)) == [str, str]
        for pair in spellings
    )
    if not pairs:
        raise ValueError(f"spellings must be pairs of strings, got {spellings!r:.80}")
    return [tuple(pair) for pair in spellings]


class FeatureNames(Sequence):
    """An immutable list of names that compares by digest.

    The rows that a vectorizer returns have names, and a tagger compares them in each
    call with the names of training. After loading, the vectorizer and the tagger have
    separate lists, and comparing all names would take longer than the prediction.

    Parameters
    ----------
    names : iterable of str
        The names.
    spellings : sequence of (str, str), default=()
        Prefixes of names, up to the separator of a vectorizer, and the form of each
        prefix in python-crfsuite. Comparisons ignore `spellings`.
    """

    def __init__(self, names, spellings=()):
        self._names, self.spellings = list(names), check_spellings(spellings)
        self._packed = self._array = self._digest = self._joined = None
        for k, name in enumerate(self._names):
            if not isinstance(name, str):
                raise TypeError(
                    f"feature_names[{k}] must be a string, got {name!r:.80}"
                )
        self._length = len(self._names)

    @classmethod
    def of(cls, names):
        """Return an iterable of names as `FeatureNames`, and None unchanged."""
        return names if names is None or isinstance(names, cls) else cls(names)

    @classmethod
    def joined(cls, parts):
        """Return the names of all parts; an int is a number of unnamed features.

        Returns None if all parts are ints. A name that an earlier part has too is
        prefixed with the number of the later part, ``1__``. The last result is cached,
        as a union of features calls this method in each transform.
        """
        with_names = next((part for part in parts if isinstance(part, cls)), None)
        if with_names is None:
            return None
        if with_names._joined is None or with_names._joined[0] != parts:
            names, unjoined_names, spellings = {}, [], set()
            for number, part in enumerate(parts):
                part_spellings = set(getattr(part, "spellings", ()))
                spellings |= part_spellings
                if isinstance(part, int):
                    part = [f"x{len(names) + k}" for k in range(part)]
                unjoined_names += () if part_spellings else part
                for name in part:
                    while name in names:
                        name = f"{number}__{name}"
                    names[name] = None
            # a name of a part without spellings may begin like a prefix: let the
            # unchanged name be a spelling, too
            prefixes = tuple(prefix for prefix, _ in spellings)
            if any(name.startswith(prefixes) for name in unjoined_names):
                spellings.add(("", ""))
            with_names._joined = parts, cls(names, sorted(spellings))
        return with_names._joined[1]

    @staticmethod
    def is_packed(value):
        """Whether a value in a state is the result of `packed`."""
        return isinstance(value, dict) and (
            value.keys() - {_SPELLINGS} == {_TEXT, _LENGTHS}
        )

    def packed(self):
        """Return the names as two arrays: one text, and the length of each name."""
        if self._packed is None:
            # surrogatepass, as a name may contain half of a surrogate pair
            text = "".join(self._names).encode("utf-8", "surrogatepass")
            lengths = np.fromiter(map(len, self._names), np.int32, len(self))
            self._packed = {_TEXT: np.frombuffer(text, np.uint8), _LENGTHS: lengths}
            if self.spellings:
                text = json.dumps(self.spellings).encode()
                self._packed[_SPELLINGS] = np.frombuffer(text, np.uint8)
        return self._packed

    @classmethod
    def unpack(cls, packed):
        """Return the names that `packed` wrote, with checks for damaged files."""
        text, lengths = packed[_TEXT], packed[_LENGTHS]
        for array, dtype in ((text, np.uint8), (lengths, np.int32)):
            if not isinstance(array, np.ndarray) or array.dtype != dtype:
                raise ValueError("packed names must be arrays of uint8 and int32")
        size = len(text.tobytes().decode("utf-8", "surrogatepass"))
        if (lengths < 0).any() or lengths.sum(dtype=np.int64) != size:
            raise ValueError("packed names: the lengths are not those of the text")
        spellings = packed.get(_SPELLINGS)
        if spellings is not None:
            spellings = json.loads(np.asarray(spellings, dtype=np.uint8).tobytes())
        names = cls((), spellings or ())
        # taggers compare digests only: `to_list` makes the list when it is called
        names._names, names._packed, names._length = None, dict(packed), len(lengths)
        names.digest()
        return names

    def spelled(self):
        """Return, for each name, the distinct names that python-crfsuite uses."""
        if not self.spellings:
            return [[name] for name in self.to_list()]
        known, spelled = {}, []
        for prefix, other in self.spellings:
            known.setdefault(prefix, []).append(other)
        lengths = sorted(set(map(len, known)))
        for name in self.to_list():
            found = dict.fromkeys(
                other + name[n:]
                for n in lengths
                for other in known.get(name[:n], ())
                if n <= len(name)
            )
            spelled.append(list(found) or [name])
        return spelled

    def digest(self):
        """Return a few bytes that are equal if all names are equal; computed once."""
        if self._digest is None:
            packed = self.packed()
            hasher = blake2b(packed[_TEXT], digest_size=16)
            hasher.update(packed[_LENGTHS])
            self._digest = hasher.digest()
        return self._digest

    def to_list(self):
        """Return the names as a list, the same object in every call."""
        if self._names is None:
            text = self._packed[_TEXT].tobytes().decode("utf-8", "surrogatepass")
            ends = np.cumsum(self._packed[_LENGTHS], dtype=np.int64).tolist()
            starts = [0, *ends[:-1]]
            self._names = [text[a:b] for a, b in zip(starts, ends, strict=True)]
        return self._names

    def tolist(self):
        """Return the names as a new list, like `ndarray.tolist`."""
        return self.to_list().copy()

    def to_array(self):
        """Return the names as an array of objects, the same object in every call."""
        if self._array is None:
            self._array = np.array(self.to_list(), dtype=object)
            self._array.flags.writeable = False
        return self._array

    def __array__(self, dtype=None, copy=None):
        return np.array(self.to_list(), dtype=object if dtype is None else dtype)

    def __len__(self):
        return self._length

    def __getitem__(self, key):
        return self.to_list()[key]

    def __eq__(self, other):
        if self is other:
            return True
        if isinstance(other, (list, tuple)):
            return self.to_list() == list(other)
        if not isinstance(other, FeatureNames):
            return NotImplemented
        return len(self) == len(other) and self.digest() == other.digest()

    def __hash__(self):
        return hash(self.digest())

    def __repr__(self):
        return f"FeatureNames({len(self)} names)"

    def __getstate__(self):
        return self.packed()

    def __setstate__(self, state):
        vars(self).update(vars(FeatureNames.unpack(state)))
