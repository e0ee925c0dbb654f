"""The shortest part of a soak's schedule that still fails."""

from collections.abc import Callable, Collection, Mapping

from replication_lab.model.drill.soak import Document

# The place of a fault: its round, its step, its number in the step.
Fault = tuple[str, int, int]
# How often rounds are run before they count as held: the times of a real machine differ, so some failures are rare.
TRIES = 3


def faults_of(rounds: Mapping[str, Document]) -> list[Fault]:
    """Return the place of each fault, in the order in which the faults are injected."""
    return [
        (name, number, place)
        for name, document in rounds.items()
        for number, step in enumerate(document["steps"])
        for place in range(1 + len(step.get("also", [])))
    ]


def with_faults(rounds: Mapping[str, Document], kept: Collection[Fault]) -> dict[str, Document]:
    """Return the rounds with these faults only; steps and rounds without any are left out, and promises stay.

    What held with more faults has to hold with fewer.
    """
    left = {}
    for name, document in rounds.items():
        steps = []
        for number, step in enumerate(document["steps"]):
            of_step = {key: step[key] for key in ("seconds", "failover") if key in step}
            first = {key: value for key, value in step.items() if key not in ("seconds", "failover", "also")}
            faults = [
                each for place, each in enumerate([first, *step.get("also", [])]) if (name, number, place) in kept
            ]
            if faults:
                steps.append({**faults[0], **of_step, **({"also": faults[1:]} if faults[1:] else {})})
        if steps:
            left[name] = {**document, "steps": steps}
    return left


def shortest(
    rounds: Mapping[str, Document], fails: Callable[[dict[str, Document]], bool], goes_on: Callable[[], bool]
) -> dict[str, Document]:
    """Return the shortest part of failing rounds that still fails, by delta debugging, as far as time allows.

    `fails` runs rounds again, and each part up to three times. The last round is the one that failed, so it is tried
    alone first.
    """

    def still_fails(part: list[Fault]) -> bool:
        return any(goes_on() and fails(with_faults(rounds, part)) for _ in range(TRIES))

    kept = faults_of(rounds)
    last = [each for each in kept if each[0] == kept[-1][0]]
    if len(last) < len(kept) and still_fails(last):
        kept = last
    parts = 2
    while len(kept) > 1 and goes_on():
        size = -(-len(kept) // parts)
        without = [kept[:begin] + kept[begin + size :] for begin in range(0, len(kept), size)]
        fewer = next(filter(still_fails, without), None)
        if fewer is not None:
            kept, parts = fewer, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(kept))
    return with_faults(rounds, kept)
