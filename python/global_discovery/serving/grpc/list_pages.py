"""Pages of a list as they are answered: each is put together once, and given to everyone.

A page of a MiB takes two milliseconds of the loop to put together. The pages that were
asked for lately are kept, up to `MAX_KEPT_BYTES`; a page of another position is another
page, so none is ever told too late.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from global_discovery.serving import wire
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.view.pages import Pages
from global_discovery.view.view import Filter, View

MAX_KEPT_BYTES = 16 * 1024 * 1024
_OVERHEAD_BYTES = 512
"""Of one page that is kept, about."""


class ListPages:
    """Of one view."""

    def __init__(
        self, pages: Pages[Any], view: View[Any], entry_field: Callable[[Any], bytes]
    ) -> None:
        """`entry_field` gives an entry as a field of the answer."""
        self._pages = pages
        self._view = view
        self._entry_field = entry_field
        self._made: OrderedDict[tuple[bytes, int, int, int], tuple[bytes, bool]] = OrderedDict()
        """The answers by place, the one used last at the end, and whether another page follows."""
        self._size = 0

    def page(self, wanted: Filter, request: pb.ListPoolsRequest | pb.ListRoutersRequest) -> bytes:
        """One page. Raises what `Pages.page` raises."""
        place = self._pages.find(wanted, request.page_size, request.page_token)
        made = self._made.get(place.name)
        if made is not None:
            self._made.move_to_end(place.name)
            answer, goes_on = made
            if goes_on:
                self._pages.keep(place)
            return answer
        page = self._pages.cut(place)
        answer = wire.list_response(
            map(self._entry_field, page.entries),
            mark=page.snapshot.mark,
            position=self._view.position(page.snapshot.sequence, wanted),
            next_page_token=page.next_page_token,
        )
        self._keep(place.name, answer, goes_on=page.next_page_token != "")
        return answer

    def _keep(self, name: tuple[bytes, int, int, int], answer: bytes, *, goes_on: bool) -> None:
        self._made[name] = (answer, goes_on)
        self._size += len(answer) + _OVERHEAD_BYTES
        while self._size > MAX_KEPT_BYTES:
            oldest, _ = self._made.popitem(last=False)[1]
            self._size -= len(oldest) + _OVERHEAD_BYTES
