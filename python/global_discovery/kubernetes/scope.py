"""What is listed and watched: a kind, where, and which of its objects."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind, as the API server's paths name it."""

    group: str
    version: str
    plural: str

    @property
    def kind(self) -> str:
        """As permissions name it."""
        return f"{self.plural}.{self.group}"

    def path(self, namespace: str | None = None, name: str = "") -> str:
        """Of all objects or of one; without a namespace those of all, or of kinds without."""
        inside = f"/namespaces/{quote(namespace, safe='')}" if namespace is not None else ""
        last = f"/{quote(name, safe='')}" if name else ""
        return f"/apis/{self.group}/{self.version}{inside}/{self.plural}{last}"


ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices")


@dataclass(frozen=True, slots=True)
class Scope:
    """One list and watch."""

    resource: Resource
    namespace: str | None = None
    """None: all of them."""
    label_selector: str = ""

    @property
    def path(self) -> str:
        """Of the request."""
        return self.resource.path(self.namespace)

    @property
    def params(self) -> dict[str, str]:
        """Of the request."""
        return {"labelSelector": self.label_selector} if self.label_selector else {}
