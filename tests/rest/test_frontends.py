"""Frontend URLs through `POST /pools`: which are taken, as what, and that none is ever touched."""

import sys
import threading

import pytest

from support.rest import RestUnderTest, a_body

TAKEN = {
    "http://[fd00::1]:8000": "http://[fd00::1]:8000",
    "http://[FD00:0:0::1]:8000/": "http://[fd00::1]:8000",
    "HTTP://H:80/": "http://h",
    "https://H:443": "https://h",
    "https://h:80": "https://h:80",
    "http://h:0080": "http://h",
    "http://h:65535/v1/": "http://h:65535/v1",
    "http://h/a//b": "http://h/a//b",
    "http://xn--bcher-kva.example": "http://xn--bcher-kva.example",
    "http://under_score.example": "http://under_score.example",
    "http://169.254.169.254": "http://169.254.169.254",
    "http://127.0.0.1:8000": "http://127.0.0.1:8000",
    "http://no-such-name.invalid:8000": "http://no-such-name.invalid:8000",
    "http://h/%41": "http://h/%41",
}

REFUSED = [
    "http://fd00::1:8000",
    "http://[fe80::1%25eth0]",
    "http://[fe80::1%eth0]",
    "http://[::1",
    "http://[[::1]]",
    "http://::1]",
    "http://1.2.3.4:99999",
    "http://1.2.3.4:0",
    "http://1.2.3.4:-1",
    "http://h:",
    "http://:80",
    "http://",
    "http:///path",
    "ftp://x",
    "//x",
    "x:80",
    "http://user:pw@h",
    "http://@h",
    "http://h/path?q",
    "http://h/path#f",
    "http://h?",
    "http://bücher.example",
    "http://h h",
    "http://h\t",
    " http://h",
    "http://h/ü",
    "http://h/%zz",
    "http://2852039166",
    "http://0x7f.1",
    "http://1.2.3",
    "http://" + "h" * 300,
    "http://h/" + "p" * 600,
    "javascript:alert(1)",
]


@pytest.mark.parametrize("url", TAKEN)
async def test_a_frontend_is_listed_in_its_one_spelling(rest: RestUnderTest, url: str) -> None:
    assert (await rest.post(a_body(frontends=[url]))).status == 200
    assert (await rest.listed())[0]["frontends"] == [TAKEN[url]]


@pytest.mark.parametrize("url", REFUSED)
async def test_a_frontend_that_is_none_is_refused(rest: RestUnderTest, url: str) -> None:
    reply = await rest.post(a_body(frontends=["http://good", url]))
    assert (reply.status, reply.fields) == (422, ["frontends[1]"])
    assert await rest.listed() == []


async def test_spellings_of_one_frontend_are_one_frontend(rest: RestUnderTest) -> None:
    urls = ["http://h", "HTTP://H:80", "http://h/", "http://h:080/"]
    assert (await rest.post(a_body(frontends=urls))).status == 200
    assert (await rest.listed())[0]["frontends"] == ["http://h"]


async def test_applications_on_one_address_are_told_apart(rest: RestUnderTest) -> None:
    for number in range(3):
        await rest.post(a_body(number, frontends=["http://10.0.0.1:8000"]))
    assert len(await rest.listed()) == 3


class Touched:
    """Whom this process tried to reach, while it is watched.

    An audit hook cannot be taken away again, so that there is one for all.
    """

    def __init__(self) -> None:
        self.watching = False
        self.targets: list[object] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.watching and event in {
            "socket.connect",
            "socket.sendto",
            "socket.getaddrinfo",
            "socket.gethostbyname",
            "socket.gethostbyaddr",
            "subprocess.Popen",
        }:
            self.targets.append((event, arguments[1] if event == "socket.connect" else arguments))


_TOUCHED = Touched()


async def test_what_is_registered_is_neither_resolved_nor_called(rest: RestUnderTest) -> None:
    await rest.call("GET", "/livez")
    _TOUCHED.targets.clear()
    _TOUCHED.watching = True
    try:
        for url in (*TAKEN, *REFUSED):
            await rest.post(a_body(frontends=[url]))
        await rest.post(a_body(relays=["ip:169.254.169.254"]), x_forwarded_for="192.0.2.1")
        await rest.call("GET", "/pools")
        await rest.call("DELETE", "/pools/c1/ns/pool-00000?all=true")
    finally:
        _TOUCHED.watching = False
    own = ("socket.connect", ("127.0.0.1", rest.face.port))
    assert [target for target in _TOUCHED.targets if target != own] == []
    assert threading.active_count() < 50
