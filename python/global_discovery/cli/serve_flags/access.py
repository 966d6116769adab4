"""The flags of who may do what, and what must hold between them."""

import re
from typing import Any

from global_discovery.cli.flags import Flag, Refused, Values
from global_discovery.cli.serve_flags.general import ALWAYS
from global_discovery.cli.values import file_path, kubeconfig, one_of
from global_discovery.domain.access import ALL_RIGHTS, EVERY_KEY, NO_KEY, Rights
from global_discovery.domain.policy import BadPolicy
from global_discovery.serving.access.policy_file import load

_MAX_AUDIENCE = 253
_CLUSTER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_ANONYMOUS = {
    "all": ALL_RIGHTS,
    "read": Rights(EVERY_KEY, NO_KEY),
    "none": Rights(NO_KEY, NO_KEY),
}
LOCAL = "local"
"""The name of the cluster that this process runs in, where none is given."""

ANONYMOUS = Flag(
    "--anonymous",
    "all|read|none",
    one_of(*_ANONYMOUS),
    "What callers without an identity may do; read closes registration to them.",
    ALWAYS,
    otherwise="all, with --policy-path none",
)
POLICY = Flag(
    "--policy-path",
    "PATH",
    file_path,
    "The policy, in TOML: which identities may read and register which pools.",
    ALWAYS,
    otherwise="every identity may do all",
)


def _audience(text: str) -> str:
    if not text.isascii() or not text.isprintable() or " " in text or len(text) > _MAX_AUDIENCE:
        raise ValueError(f"is not 1 to {_MAX_AUDIENCE} printable characters of ASCII without space")
    return text


def _named(text: str) -> tuple[str, str, str]:
    name, equals, rest = text.partition("=")
    if _CLUSTER.fullmatch(name) is None:
        raise ValueError("has no name of 1 to 63 of A-Z a-z 0-9 . _ - in front")
    return name, equals, rest


def _cluster(text: str) -> tuple[str, str | None]:
    name, equals, path = _named(text)
    if equals and not path:
        raise ValueError("has no path behind =")
    return name, kubeconfig(path) if equals else None


def _issuer(text: str) -> tuple[str, str]:
    name, _, issuer = _named(text)
    if not issuer or not issuer.isprintable() or " " in issuer:
        raise ValueError("is not of the form <name>=<issuer>")
    return name, issuer


TOKEN_AUDIENCE = Flag(
    "--token-audience",
    "AUDIENCE",
    _audience,
    "Looks at service-account tokens that are made for this audience, and has them reviewed.",
    ALWAYS,
    otherwise="tokens are not looked at",
)
TOKEN_CLUSTER = Flag(
    "--token-cluster",
    "NAME[=KUBECONFIG]",
    _cluster,
    "A cluster whose service accounts are known, and how its API server is reached.",
    ALWAYS,
    otherwise="local, by KUBECONFIG or the service account of the pod",
    repeatable=True,
)
TOKEN_ISSUER = Flag(
    "--token-issuer",
    "NAME=ISSUER",
    _issuer,
    "The iss of the tokens of that cluster, the only ones its API server is shown.",
    ALWAYS,
    otherwise="all tokens go to the only cluster",
    repeatable=True,
)


def anonymous_rights(values: Values) -> Rights:
    """What everybody may do."""
    default = "none" if values.is_set(POLICY) else "all"
    return _ANONYMOUS[values.get(ANONYMOUS) or default]


def check(values: Values) -> None:
    """Raises Refused for the first rule that is broken. The policy is read last."""
    if values.is_set(POLICY) and values.get(ANONYMOUS) == "all":
        raise Refused(f"{values.source(ANONYMOUS)} all would undo {values.source(POLICY)}")
    for flag in (TOKEN_CLUSTER, TOKEN_ISSUER):
        if values.is_set(flag) and not values.is_set(TOKEN_AUDIENCE):
            raise Refused(f"{values.source(flag)} needs {TOKEN_AUDIENCE.name}")
    _check_issuers(values)
    path = values.get(POLICY)
    if path is not None:
        try:
            load(path)
        except BadPolicy as bad:
            raise Refused(f"{values.source(POLICY)} {str(path)!a}: {bad}") from None


def _check_issuers(values: Values) -> None:
    names = [name for name, _ in values.all(TOKEN_CLUSTER)] or [LOCAL]
    issuers = values.all(TOKEN_ISSUER)
    _refuse_doubled(values, TOKEN_CLUSTER, "name", names)
    _refuse_doubled(values, TOKEN_ISSUER, "name", [name for name, _ in issuers])
    # A token that could be of either would be shown to both.
    _refuse_doubled(values, TOKEN_ISSUER, "issuer", [issuer for _, issuer in issuers])
    for name, _ in issuers:
        if name not in names:
            raise Refused(f"{values.source(TOKEN_ISSUER)} {name}: is no {TOKEN_CLUSTER.name}")
    if len(names) > 1:
        for name in names:
            if name not in dict(issuers):
                raise Refused(
                    f"{values.source(TOKEN_CLUSTER)} {name}: one of several needs "
                    f"{TOKEN_ISSUER.name} {name}=<issuer>"
                )


def _refuse_doubled(values: Values, flag: Flag[Any], what: str, given: list[str]) -> None:
    for each in given:
        if given.count(each) > 1:
            raise Refused(f"{values.source(flag)}: the {what} {each!a} is there twice")
