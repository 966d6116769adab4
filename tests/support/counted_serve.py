"""`serve` that tells how many tasks it has when it gets SIGUSR1: `counted_serve.py [flag ...]`.

Everything else is the real thing. Its garbage is collected first.
"""

import asyncio
import gc
import json
import signal
import sys

from global_discovery.cli.main import main


def tell(_number: int, _frame: object) -> None:
    gc.collect()
    told = {"event": "tasks_counted", "tasks": len(asyncio.all_tasks())}
    sys.stderr.write(json.dumps(told) + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, tell)
    sys.exit(main(["serve", *sys.argv[1:]]))
