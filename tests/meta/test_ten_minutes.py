"""Does the page show the ten minutes as they are typed, and is a text that names the checkout's command noticed?"""

from replication_lab.model.core.command import LAUNCHER

from tests.lab import ten_minutes
from tests.lab.outside import Outside, Typed

WRITTEN = ten_minutes.PAGE.read_text().partition(ten_minutes.BEGIN)[2].partition(ten_minutes.END)[0]


def test_the_page_has_each_command_in_its_order():
    """A step that was changed since the page was written is seen."""
    typed = [line.removeprefix("$ ") for line in WRITTEN.splitlines() if line.startswith("$ ")]

    assert typed == ten_minutes.lines()


def test_the_page_is_of_an_installed_package():
    """No command of the checkout, no folder of the machine that it was typed on."""
    assert LAUNCHER.search(WRITTEN) is None
    assert "/tmp" not in WRITTEN and "/root" not in WRITTEN


def test_a_text_that_names_the_checkout_s_command_is_noticed(tmp_path):
    """Printed, or in a file that the lab wrote; files of the user's own do not count."""
    user = Outside(tmp_path)
    for path in ("runs/1/report.html", "shop/README.md"):
        (user.work / path).parent.mkdir(parents=True)
        (user.work / path).write_text("next: ./lab up")
    user.all_typed.append(Typed("lab up", "next: ./lab down\n", 3, 1.0))

    found = user.name_the_checkouts_command()
    assert [text.partition(": ")[2] for text in found] == ["next: ./lab down", "next: ./lab up"]
    assert "report.html" in found[1]
