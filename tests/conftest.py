"""Generated examples are judged by what they show, never by how long they took."""

from hypothesis import settings

settings.register_profile("without-deadline", deadline=None)
settings.load_profile("without-deadline")
