"""A page of an application, by its URL."""

import requests

from replication_lab.model.core.errors import LabError, as_lab_error


def is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def fetch(url: str, seconds: float) -> None:
    """Fetch a page; LabError if it has no answer within this time, or a status that is no success.

    A proxy of the environment is not used: the application is on this machine.
    """
    with requests.Session() as session:
        session.trust_env = False
        with as_lab_error(requests.RequestException, f"{url} does not answer", "an answer", f"curl -i {url}"):
            answer = session.get(url, timeout=seconds)
    if not answer.ok:
        raise LabError(f"{url} answers with status {answer.status_code}", "status 200", f"curl -i {url}")
