"""The table of frontend URLs that are taken and refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.domain.frontend_url import MAX_BYTES, BadUrl, normalize


@pytest.mark.parametrize(
    ("url", "listed"),
    [
        ("http://h", "http://h"),
        ("https://h", "https://h"),
        ("HTTP://H:80/", "http://h"),
        ("HtTpS://Frontend.Example.COM:443", "https://frontend.example.com"),
        ("http://h:443", "http://h:443"),
        ("https://h:80", "https://h:80"),
        ("http://h:8000", "http://h:8000"),
        ("http://h:08000", "http://h:8000"),
        ("http://h:1", "http://h:1"),
        ("http://h:65535", "http://h:65535"),
        ("http://h/", "http://h"),
        ("http://h/V1/Chat", "http://h/V1/Chat"),
        ("http://h/v1/", "http://h/v1"),
        ("http://h/v1//", "http://h/v1/"),
        ("http://h/a%2Fb", "http://h/a%2Fb"),
        ("http://h/a%2fb", "http://h/a%2fb"),
        ("http://h/a:b@c;d=e,f", "http://h/a:b@c;d=e,f"),
        ("http://10.0.0.1:8000", "http://10.0.0.1:8000"),
        ("http://127.0.0.1", "http://127.0.0.1"),
        ("http://169.254.169.254", "http://169.254.169.254"),
        ("http://[fd00::1]:8000", "http://[fd00::1]:8000"),
        ("http://[FD00:0:0::0001]", "http://[fd00::1]"),
        ("http://[::1]:80/x/", "http://[::1]/x"),
        ("http://[::FFFF:1.2.3.4]:8000", "http://1.2.3.4:8000"),
        ("http://a_b.svc", "http://a_b.svc"),
        ("http://example.com.", "http://example.com."),
        ("http://xn--bcher-kva.example", "http://xn--bcher-kva.example"),
        ("http://1password.example", "http://1password.example"),
        ("http://does-not-resolve.invalid", "http://does-not-resolve.invalid"),
        (f"http://{'a' * 63}.b", f"http://{'a' * 63}.b"),
    ],
)
def test_a_url_is_listed_in_its_one_spelling(url: str, listed: str) -> None:
    assert normalize(url) == listed


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h",
        "//h",
        "h:80",
        "http:",
        "http:/h",
        "http:h",
        "http://",
        "http:///path",
        "http://:80",
        "ftp://x",
        "ws://x",
        "file:///etc/passwd",
        "javascript://x",
        "http://user@h",
        "http://user:pw@h",
        "http://@h",
        "http://h?",
        "http://h?q",
        "http://h/path?q",
        "http://h#",
        "http://h/path#f",
        "http://h/path?q#f",
        "http://h:",
        "http://h:0",
        "http://h:00",
        "http://h:65536",
        "http://1.2.3.4:99999",
        "http://h:8a",
        "http://h:-1",
        "http://h:+80",
        "http://h:80:80",
        "http://h:٨٠",
        "http://h: 80",
        "http://fd00::1:8000",
        "http://fd00::1",
        "http://[fe80::1%25eth0]",
        "http://[fe80::1%eth0]",
        "http://[::1",
        "http://::1]",
        "http://[[::1]]",
        "http://[]",
        "http://[::g]",
        "http://[1.2.3.4]",
        "http://[v1.x]",
        "http://[::1]x",
        "http://x[::1]",
        "http://2852039166",
        "http://0x7f.1",
        "http://0x7f000001",
        "http://1.2.3",
        "http://1.2.3.4.5",
        "http://1.2.3.256",
        "http://010.0.0.1",
        "http://1.2.3.4.",
        "http://a.0x",
        "http://bücher.example",
        "http://\u212aelvin.example",
        "http://h。example",
        "http://.",
        "http://a..b",
        "http://.a",
        "http://-a",
        "http://a-",
        "http://a b",
        "http://a\tb",
        "http://a%2Eb",
        "http://a\\b",
        "http://h\n",
        "http://h/\n",
        "\nhttp://h",
        " http://h",
        "http://h ",
        "http://h/a b",
        "http://h/ä",
        "http://h/%",
        "http://h/%4",
        "http://h/%zz",
        "http://h/<x>",
        "http://h/\\",
        "http://h/\x00",
        "http://\ud800",
        "http://h/\ud800",
        f"http://{'a' * 64}",
        f"http://{'a.' * 150}",
    ],
)
def test_a_url_that_is_none_of_ours_is_refused(url: str) -> None:
    with pytest.raises(BadUrl):
        normalize(url)


def test_a_url_has_at_most_512_bytes() -> None:
    url = "http://h/" + "a" * (MAX_BYTES - len("http://h/"))
    assert normalize(url) == url
    with pytest.raises(BadUrl, match="longer than 512 bytes"):
        normalize(url + "a")
    with pytest.raises(BadUrl, match="longer than 512 bytes"):
        normalize("http://h/" + "é" * 252)


names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,10}(\.[a-zA-Z_]{1,5}){0,2}", fullmatch=True)
addresses = st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(lambda ip: f"[{ip}]")
ports = st.just("") | st.integers(1, 65_535).map(lambda port: f":{port}")
paths = st.from_regex(r"(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2}){1,5}){0,3}/?", fullmatch=True)
schemes = st.sampled_from(["http", "HTTP", "https", "Https"])
urls = st.builds("{}://{}{}{}".format, schemes, names | addresses, ports, paths)


@given(urls)
def test_a_listed_url_is_taken_as_it_is(url: str) -> None:
    listed = normalize(url)
    assert normalize(listed) == listed
    assert len(listed) <= len(url)
    assert listed.isascii()


@given(st.text(max_size=40) | st.builds("http://{}".format, st.text(max_size=20)))
def test_any_text_is_taken_or_refused_with_a_sentence(text: str) -> None:
    try:
        listed = normalize(text)
    except BadUrl as refusal:
        reason = str(refusal)
    else:
        reason = ""
        assert listed.startswith(("http://", "https://"))
    assert reason.isascii()
