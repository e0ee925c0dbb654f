"""A page of an application, by its URL."""

import requests

from replication_lab.model.core.errors import LabError


def is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def fetch(url: str, seconds: float) -> None:
    """Fetch a page; LabError if it has no answer within this time, or a status that is no success.

    A proxy of the environment is not used: the application is on this machine.
    """
    with requests.Session() as session:
        session.trust_env = False
        try:
            answer = session.get(url, timeout=seconds)
        except requests.RequestException as error:
            raise LabError(f"{url} does not answer: {error}", "an answer", f"curl -i {url}") from error
    if not answer.ok:
        raise LabError(f"{url} answers with status {answer.status_code}", "status 200", f"curl -i {url}")
