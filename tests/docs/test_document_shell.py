"""A document whose command fails, or prints something else, is not passed."""

from pathlib import Path

import pytest

from support.document_shell import run_document
from support.documents import BadDocument, blocks_of, steps_of


async def failing(text: str, folder: Path) -> str:
    with pytest.raises(AssertionError) as caught:
        await run_document(text, folder)
    return str(caught.value)


async def test_commands_run_in_one_shell_and_in_their_order(tmp_path: Path) -> None:
    text = """
```sh
mkdir there && cd there
word=hello
```
```console
$ echo "$word" | tee file; ls
hello
file
```
"""
    assert await run_document(text, tmp_path) == 3


async def test_a_command_that_fails_fails_the_document(tmp_path: Path) -> None:
    text = "```sh\ntrue\nls /no/such/folder\n```\n"
    assert "'ls /no/such/folder' ended with 2" in await failing(text, tmp_path)


async def test_a_failure_within_a_pipe_fails_the_document(tmp_path: Path) -> None:
    assert "ended with 1" in await failing("```sh\nfalse | cat\n```\n", tmp_path)


async def test_a_variable_that_nothing_set_fails_the_document(tmp_path: Path) -> None:
    assert "the shell has ended" in await failing("```sh\necho $nobody\n```\n", tmp_path)


async def test_another_answer_than_the_shown_one_fails_the_document(tmp_path: Path) -> None:
    text = '```console\n$ echo \'{"complete":true}\'\n{"complete":false}\n```\n'
    assert "is said to print" in await failing(text, tmp_path)


async def test_times_and_line_breaks_may_differ_and_dots_stand_for_anything(tmp_path: Path) -> None:
    text = """
```console
$ echo '{"a":1,"time":"2026-11-30T10:00:00.002Z"} after 12 s, and more'
{"a":1,
 "time":"1999-01-01T00:00:00Z"} after 3 s, ...
```
"""
    assert await run_document(text, tmp_path) == 1


async def test_a_server_that_does_not_come_up_fails_the_document(tmp_path: Path) -> None:
    text = "```sh\nglobal-discovery serve --no-such-flag\n```\n"
    assert "--no-such-flag" in await failing(text, tmp_path)


async def test_a_command_left_running_that_ends_badly_fails_the_document(tmp_path: Path) -> None:
    text = "```sh\nbash -c 'trap \"exit 3\" TERM; echo up; while :; do sleep 0.1; done' &\n```\n"
    assert "ended with 3" in await failing(text, tmp_path)


async def test_a_command_left_running_that_ends_by_itself_fails_the_document(
    tmp_path: Path,
) -> None:
    text = "```sh\nbash -c 'echo up' &\nuntil test -e var; do :; done\n```\n"
    assert "ended" in await failing(text + "```sh\nsleep 0.2\n```\n", tmp_path)


async def test_what_is_marked_is_not_run(tmp_path: Path) -> None:
    text = "<!-- run: needs-cluster -->\n```sh\nfalse\n```\n"
    assert await run_document(text, tmp_path) == 0


async def test_what_is_marked_is_run_where_the_reason_is_none(tmp_path: Path) -> None:
    text = "<!-- run: needs-cluster -->\n```sh\nfalse\n```\n"
    with pytest.raises(AssertionError, match="'false' ended with 1"):
        await run_document(text, tmp_path, at_hand={"needs-cluster"})


async def test_a_command_that_is_said_to_fail_must_fail_so(tmp_path: Path) -> None:
    text = "<!-- exits: 1 -->\n```console\n$ echo no; false\nno\n```\n"
    assert await run_document(text, tmp_path) == 1
    (tmp_path / "again").mkdir()
    assert "'true' ended with 0" in await failing(
        "<!-- exits: 1 -->\n```sh\ntrue\n```\n", tmp_path / "again"
    )


async def test_hidden_commands_may_have_a_reason_too(tmp_path: Path) -> None:
    text = "<!-- before: needs-cluster\nfalse\n-->\n"
    assert await run_document(text, tmp_path) == 0
    (block,) = blocks_of(text)
    assert block.reason == "needs-cluster"


async def test_commands_that_a_reader_does_not_see_are_run(tmp_path: Path) -> None:
    text = "<!-- before:\nfalse\n-->\n"
    assert "'false' ended with 1" in await failing(text, tmp_path)


async def test_a_block_is_saved_under_its_name(tmp_path: Path) -> None:
    text = "<!-- save: hello.py -->\n```python\nprint('hello')\n```\n"
    text += "```console\n$ python hello.py\nhello\n```\n"
    assert await run_document(text, tmp_path) == 1


async def test_the_id_of_a_lease_is_the_one_that_was_given(tmp_path: Path) -> None:
    text = """
```console
$ echo '{"lease_id":"given"}'
{"lease_id":"shown"}
$ echo shown
given
```
"""
    assert await run_document(text, tmp_path) == 2


@pytest.mark.parametrize(
    "text",
    [
        "<!-- run: not-today -->\n```sh\nfalse\n```\n",
        "<!-- run: needs-cluster -->\n```json\n{}\n```\n",
        "<!-- run: needs-cluster -->\nno block\n",
        "<!-- before: not-today\nfalse\n-->\n",
        "```bash\nfalse\n```\n",
        "```\nfalse\n```\n",
        "```sh\nfalse\n",
    ],
)
def test_a_document_that_breaks_the_rules_is_refused(text: str) -> None:
    with pytest.raises(BadDocument):
        list(blocks_of(text))


def test_a_command_goes_on_over_lines_until_it_is_whole() -> None:
    text = "```sh\n# first\ncurl -d '{\n  \"a\": 1}' \\\n  there\ncat <<END\n  x\nEND\n"
    (block,) = blocks_of(text + "ls |\n  wc\n```\n")
    assert [step.command.count("\n") for step in steps_of(block)] == [2, 2, 1]
