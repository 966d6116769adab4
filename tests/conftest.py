"""Generated examples are judged by what they show, never by how long they took.

Where a change is checked before it lands the examples are always the same ones;
everywhere else they are new in each run.
"""

import os

from hypothesis import settings

settings.register_profile("everywhere", deadline=None)
settings.register_profile("landing", deadline=None, derandomize=True)
settings.load_profile("landing" if os.environ.get("CI") else "everywhere")
