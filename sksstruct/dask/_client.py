"""Mixin of estimators that work on a cluster: the parameter `client`, local copies."""

from dataclasses import KW_ONLY, dataclass

from distributed import Client, default_client
from sklearn.base import BaseEstimator, clone

from sksstruct.utils.entries import taken


@dataclass(eq=False, repr=False)
class OnCluster:
    """Mixin of estimators with the parameters of a local estimator, and `client`.

    Class attributes
    ----------------
    _local : type
        The local estimator.
    """

    _: KW_ONLY
    client: Client | None = None

    def _client(self):
        if self.client is None:
            return default_client()
        if not isinstance(self.client, Client):
            raise TypeError(
                "client must be a distributed.Client or None, got a "
                f"{type(self.client).__name__}"
            )
        return self.client

    def to_local(self) -> BaseEstimator:
        """A local estimator with the same parameters and fitted attributes.

        Returns
        -------
        estimator : estimator
            An object of the local class, which shares the fitted attributes.
        """
        names = self._local().get_params(deep=False)
        local = self._local(**taken(self, names))
        for name, value in vars(self).items():
            if name not in names and name != "client":
                setattr(local, name, value)
        return local

    def __sklearn_clone__(self):
        # a client cannot be copied: clones share it
        params = {
            name: clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
            if name != "client"
        }
        return type(self)(**params, client=self.client)

    def _state(self):
        # a connection cannot be pickled: the unpickled estimator has the default client
        return {**super()._state(), "client": None}
