"""The result of an action is its text."""

from offsider.config.web_tab import WebDone


def test_the_result_of_an_action_is_shown_as_its_text():
    assert str(WebDone("Paused default.", "/fleet")) == "Paused default."
