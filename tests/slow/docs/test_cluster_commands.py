"""The documents' commands for a cluster work against a real API server, and print what is said.

It has neither controllers nor nodes. What needs a pod that runs is not run; of that
the objects must be there that it names, once the rest of its document was run.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.document_clusters import Clusters, clusters_of
from support.document_shell import run_document
from support.documents import DOCUMENTS, ROOT, blocks_of, steps_of
from support.kube_assets import needed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CLUSTER = "needs-cluster"
KUBELET = "needs-kubelet"
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in DOCUMENTS}
CONCERNED = [
    name
    for name, text in TEXTS.items()
    if any(block.reason in (CLUSTER, KUBELET) for block in blocks_of(text))
]
OF_A_POD = re.compile(
    r"kubectl -n (?P<namespace>\S+) (?:rollout status|port-forward|exec|logs)"
    r" (?P<what>[a-z]+/[a-z0-9-]+)(?: .*)?"
)
"""The commands that need a kubelet, or the controllers that go with it. No others do."""


async def run_in_clusters(text: str, folder: Path, clusters: Clusters) -> int:
    """Runs a document's commands, those for a cluster among them; how many that were."""
    clusters.furnish(folder)
    variables = clusters.variables(folder)
    ran = await run_document(text, folder, at_hand={CLUSTER}, variables=variables)
    for command in commands_of(text, KUBELET):
        names = OF_A_POD.fullmatch(command.removesuffix(" &"))
        assert names is not None, f"{command!r} needs no kubelet"
        get(names["what"], names["namespace"], variables)
    return ran


def get(what: str, namespace: str, variables: Mapping[str, str]) -> None:
    """Fails where it is not there."""
    kubectl = needed("kubectl")
    call = [kubectl, "-n", namespace, "get", what]
    got = subprocess.run(call, env=variables, capture_output=True, check=False, timeout=60)
    assert got.returncode == 0, got.stderr


def commands_of(text: str, *reasons: str | None) -> Iterator[str]:
    for block in blocks_of(text):
        if block.reason in reasons and block.runs({CLUSTER, KUBELET}):
            yield from (step.command for step in steps_of(block))


@pytest.mark.parametrize("document", CONCERNED)
async def test_the_commands_for_a_cluster_work(document: str, tmp_path: Path) -> None:
    text = TEXTS[document]
    async with clusters_of(text, tmp_path) as clusters:
        ran = await run_in_clusters(text, tmp_path / "reader", clusters)
    assert ran == len(list(commands_of(text, None, CLUSTER)))


def test_the_documents_on_clusters_are_among_them() -> None:
    assert {"docs/deploy.md", "docs/access.md", "docs/operating.md"} <= set(CONCERNED)


def marked(reason: str, language: str, text: str) -> str:
    return f"<!-- run: {reason} -->\n```{language}\n{text}\n```\n"


async def test_a_document_whose_command_for_a_cluster_is_wrong_fails(tmp_path: Path) -> None:
    wrong = {
        marked(CLUSTER, "sh", "kubectl get namespace no-such"): "not found",
        marked(CLUSTER, "sh", "kubectl apply -k deploy/no-such"): "no-such",
        marked(CLUSTER, "console", "$ kubectl auth can-i list pods\nno"): "is said to print",
        marked(KUBELET, "sh", "kubectl get pods"): "needs no kubelet",
        marked(KUBELET, "sh", "kubectl -n default logs deployment/none"): "not found",
    }
    async with clusters_of("", tmp_path) as clusters:
        for number, (text, said) in enumerate(wrong.items()):
            with pytest.raises(AssertionError, match=said):
                await run_in_clusters(text, tmp_path / f"reader-{number}", clusters)
