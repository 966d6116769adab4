"""Global Discovery: tells LLM routers, in every region, which serving pools exist.

The rooms, from the ground up; each imports only from those before it:

* `v1` - the generated protocol;
* `domain` - what a pool, a lease, a mark and a change are, and the rules;
* `storage` - where registrations are kept;
* `sources` - what yields pools and routers: the registrations, the configuration;
* `view` - positions, history, filters, fan-out;
* `serving` - the gRPC service, the REST gateway, health, metrics, life cycle;
* `client` - for relays and routers; needs only `v1` and `domain`;
* `relay` - a Pool Relay as a process of its own;
* `cli` - flags to objects.
"""

from importlib.metadata import version

__version__ = version("global-discovery")
