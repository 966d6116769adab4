"""What the chaos tier may be asked for."""

import pytest

from chaos.__main__ import main


@pytest.mark.parametrize("seconds", ["0", "-1", "0.0", "nan", "inf", "soon"])
def test_a_run_that_would_judge_nothing_or_never_end_is_refused(
    seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main([f"--seconds={seconds}"])
    assert refused.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "--seconds" in told.err
    assert seconds in told.err
