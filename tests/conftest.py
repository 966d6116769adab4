"""Generated examples are judged by what they show, never by how long they took.

Where a change is checked before it lands the examples are always the same ones;
everywhere else they are new in each run. No test talks to a cluster that the
machine it runs on happens to know. A shell that runs the tests in the background has
them ignore SIGINT, and so would every process that they start.
"""

import os
import signal

from hypothesis import settings

settings.register_profile("everywhere", deadline=None)
settings.register_profile("landing", deadline=None, derandomize=True)
settings.load_profile("landing" if os.environ.get("CI") else "everywhere")

for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
    os.environ.pop(variable, None)

signal.signal(signal.SIGINT, signal.default_int_handler)
