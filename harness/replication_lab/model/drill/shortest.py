"""The shortest part of a soak's schedule that still fails."""

from collections.abc import Callable, Collection, Mapping

from replication_lab.model.drill.soak import Document

# The place of a fault: its round, its step, its number in the step.
Fault = tuple[str, int, int]


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

    `fails` runs rounds again. The last round is the one that failed, so it is tried alone first.
    """
    kept = faults_of(rounds)
    last = [each for each in kept if each[0] == kept[-1][0]]
    if len(last) < len(kept) and goes_on() and fails(with_faults(rounds, last)):
        kept = last
    parts = 2
    while len(kept) > 1 and goes_on():
        size = -(-len(kept) // parts)
        without = [kept[:begin] + kept[begin + size :] for begin in range(0, len(kept), size)]
        fewer = next((each for each in without if goes_on() and fails(with_faults(rounds, each))), None)
        if fewer is not None:
            kept, parts = fewer, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(kept))
    return with_faults(rounds, kept)
