"""moto_server, with one operation of DynamoDB after the other: run as it is, with its arguments.

moto serves each request in a thread and looks at a condition before it writes, with
nothing between them that holds off the others. So two writes on one condition can
both succeed, and a read can come between the attributes of a write. DynamoDB
promises that an item is written as a whole or not at all, and the store stands on that.
"""

import functools
import threading
from typing import Any

from moto.dynamodb.responses import DynamoHandler
from moto.server import main

_one_at_a_time = threading.Lock()
_call_action = DynamoHandler.call_action


@functools.wraps(_call_action)
def _alone(self: DynamoHandler) -> Any:
    """The request was read whole before: a slow one holds off nobody."""
    with _one_at_a_time:
        return _call_action(self)


if __name__ == "__main__":
    setattr(DynamoHandler, "call_action", _alone)  # noqa: B010 - mypy lets no method be replaced
    main()
