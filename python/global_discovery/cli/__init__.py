"""The command line: flags to objects, answers to people, and nothing more."""

import os

# gRPC's own lines on standard error are neither messages for people nor lines of
# our log. gRPC reads this as it is imported, hence here, before any command.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
