"""Which runs are trained again because they were disturbed."""

import io
import json

from trainmark.plan.reruns import disturbed_records


def test_records_that_say_so_are_found_and_counted_in_a_line(tmp_path):
    contents = {
        "fine": '{"disturbed": null}',
        "hit": json.dumps({"disturbed": {"causes": [1]}}),
        "torn": "{",
        "old": "{}",
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in [*contents, "missing"]]
    stream = io.StringIO()
    assert disturbed_records(paths, stream) == [str(tmp_path / "hit")]
    assert stream.getvalue() == (
        "rerun_disturbed: 1 run disturbed by something else on the machine, to be trained again\n"
    )
    assert disturbed_records(paths[:1], quiet := io.StringIO()) == []
    assert quiet.getvalue() == ""
