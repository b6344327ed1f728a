"""Who answers a post without a mention: rules for the plain cases, and a ranking of the agents.

Pure: it knows texts and vectors, not a database, a model or a turn.

Two questions are answered apart, because they fail apart. *Does the post ask for anything?* Its
form says most of that: a question mark, a request, a verb in front; or thanks, good news and what
its author has done already. Vectors add whether it is closer to requests or to small talk. *Whom
does it concern?* The words and the vector of each agent's description say that, and posts much like
this one that the agent has answered before. To wake no agent is the cheaper mistake: who is not
answered mentions one, while an agent that was not asked has cost money and attention. So an agent
is woken only where both answers are clear.

The weights were fitted to the first half of the posts in ``proofs/triage_data``; ``proofs.triage``
measures them on the other half. English alone has words in here: in another language the vectors
and the question mark decide.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from turntree.core.value import value
from turntree.search.results import Vector
from turntree.search.tokenizer import lexemes_of

DecisionMethod = Literal["rules", "rank", "model"]

ROUTE: Final = "triage.route"
"""The tool with which a model names agents."""
REASON_CHARS_MAX: Final = 1_000
ANSWERED_MAX: Final = 20
"""Posts that an agent has answered before and that count, the newest."""
TEXT_CHARS_MAX: Final = 2_000
"""More of a post or of a description does not say better what it is about."""
SHORT_CHARS_MAX: Final = 80
FOLLOW_UP_CHARS_MAX: Final = 200
_CLEAR: Final = 0.9
_WAKES: Final = 0.75
_UNCLEAR: Final = 0.35
"""Between these a model is asked, if one is configured; without one, ``_WAKES`` decides."""
_MARGIN: Final = 0.05
"""How far the best agent has to lead for the choice to be clear."""
_FITS_MIN: Final = 0.14
"""How much a post has to be like a description for its agent to be the one that it concerns."""
_WORD_WEIGHT: Final = 0.04
_WORDS_MAX: Final = 2.0
_ALIKE_MIN: Final = 0.6
"""Posts are alike from here on: below, who has answered one says nothing about another."""

_BASE: Final = 0.34
_FORM_WEIGHTS: Final = (1.58, 0.85, 0.86, -0.93, -0.92)
_BASE_WORDS: Final = -0.45
_FORM_WEIGHTS_WORDS: Final = (1.8, 1.04, 1.04, -0.93, -1.24)

_THANKS: Final = re.compile(
    r"(?:ok(?:ay)?|great|cool|nice|perfect|super|wow|yes|no|yep|nope|sure|noted|done|agreed|same|"
    r"thanks?(?: you)?|thx|ty|cheers|well done|good (?:job|work|catch|point|morning|evening|night)|"
    r"hi|hello|hey|bye|welcome|congratulations|congrats|haha|lol|"
    r"(?:a lot|so much|very much|all|every(?:one|body)|team|folks|again|then)|\W)+",
    re.IGNORECASE,
)
_EMOJI: Final = re.compile(r"(?::[+\-\w]+:\s*)+")
_QUESTION: Final = re.compile(r"\?")
_REQUEST: Final = re.compile(
    r"\b(?:please|can|could|would|may|should) (?:you|we|one of you|some(?:body|one)|any(?:body))\b"
    r"|\bplease\b(?! ignore| carry)"
    r"|\b(?:i|we) (?:need|want|would like|cannot|can't|lost|found)\b"
    r"|\bneeds? to\b|\bhas to\b"
    r"|\b(?:asks?|wants?|would like) (?:to|us|how|for|whether|an?)\b|\bis asking\b",
    re.IGNORECASE,
)
_COMMAND: Final = re.compile(
    r"(?:please )?(?:add|answer|ask|arrange|book|build|call|cancel|change|check|clean|clear|close|"
    r"collect|compare|convert|count|create|cut|delete|deploy|describe|design|disable|draft|draw|"
    r"edit|enable|estimate|explain|export|file|find|fix|forecast|format|generate|get|give|help|"
    r"import|improve|investigate|list|look|make|measure|merge|migrate|move|open|order|organi[sz]e|"
    r"plan|prepare|print|promote|proofread|publish|pull|push|put|read|rebuild|redesign|reduce|"
    r"refund|remind|remove|rename|repair|replace|reply|reproduce|reset|restart|restore|restyle|"
    r"review|rewrite|roll|run|schedule|search|send|set|shorten|show|sketch|sort|split|start|stop|"
    r"summari[sz]e|switch|tell|test|trace|translate|try|turn|undo|update|upgrade|verify|write|"
    r"bisect)\b(?! (?:is|was|and i)\b)",
    re.IGNORECASE,
)
_OWN: Final = re.compile(
    r"\W*(?:(?:i|my|we)\b(?! (?:need|want|would like|cannot|can't|lost|found|accidentally|get|see))"
    r"|(?:i'm|i'll|i've|let me)\b)",
    re.IGNORECASE,
)
_SETTLED: Final = re.compile(
    r"\b(?:myself|ourselves|thanks|thank you|never mind|no worries|noted|done|all is well|"
    r"fine again|green again|as promised|reminder|for your information|fyi|to summari[sz]e|"
    r"congratulations|welcome|happy birthday|good (?:morning|night|catch|work|job)|well done|"
    r"i agree|sounds good|great|wonderful|ha|sorry)\b",
    re.IGNORECASE,
)
_PART: Final = re.compile(r"[,.;:]| and ")

SMALL_TALK: Final = (
    "I have done it myself.", "It works again, all is well.", "Thanks, that helped.",
    "Congratulations, well done!", "I will be late today.", "I am out of office until next week.",
    "Here are the notes, as promised.", "I agree with you.", "Let me think about it.",
    "That was my mistake, never mind.", "Lunch together?", "Reminder: the meeting begins at ten.",
    "I am working on it this afternoon.", "The news is good: they accepted.",
    "No changes are needed.", "My colleague and I take care of it.", "Good morning.",
    "What a day.", "It is finished and documented.", "I prefer the first one.",
)  # fmt: skip
"""What people say to each other. A vector compares a post with it, and with ``REQUESTS``."""
REQUESTS: Final = (
    "Can you do this for me?", "Please look into it.", "This is broken, please find out why.",
    "How do I do that?", "What should we do about it?", "We need this by Friday.",
    "I would like to have a list of these.", "Is that allowed?", "Who can do this?",
    "Something fails since yesterday.", "A customer complains about it.",
    "Which of them is right?", "Please write, change or fix it.", "Can this be made shorter?",
    "How much is it, and how many are there?", "What does it cost?", "I lost it. What now?",
    "Find out what went wrong.",
)  # fmt: skip


@value
class TriageDecision:
    """Which agents answer a post, and why."""

    agents: tuple[str, ...]
    reason: str
    by: DecisionMethod
    turn: str | None = None
    """The turn that the decision was; None if rules decided while the post was stored."""


def read_decision(document: Mapping[str, Any]) -> TriageDecision:
    """Return a decision as a document tells it."""
    agents = tuple(str(one) for one in document["agents"])
    return TriageDecision(agents, document["reason"], document["by"], document["turn"])


@value
class TriageCandidate:
    """An agent that could answer: it takes part, and the author of the post may invoke it."""

    agent: str
    name: str
    """What people call it."""
    description: str = ""
    """Of its config; without one, its system prompt."""
    answered: tuple[str, ...] = ()
    """Posts that it has answered in this conversation, the newest first."""


@value
class RecentPost:
    """What was said before the post that is to be decided."""

    author: str | None
    is_answer_to_author: bool
    """Whether an agent answered a post of the same person with it."""


@value
class TriageVectors:
    """The vectors of a post and of what it is compared with."""

    post: Vector
    descriptions: Mapping[str, Vector]
    parts: Mapping[str, Sequence[Vector]]
    """Of each agent, the parts of its description."""
    answered: Mapping[str, Sequence[Vector]]
    small_talk: Sequence[Vector]
    requests: Sequence[Vector]


@value
class RankResult:
    """The best agents for a post, and whether they are to be woken."""

    decision: TriageDecision
    is_clear: bool
    """Whether a model would hardly decide otherwise."""
    asks: float
    """How likely it is that the post asks an agent for anything, up to 1."""
    scores: tuple[tuple[str, float], ...]
    """Each agent with how well it fits, best first."""


def decide_plainly(
    text: str,
    candidates: Sequence[TriageCandidate],
    people: Sequence[str] = (),
    last: RecentPost | None = None,
) -> TriageDecision | None:
    """Return the decision about a plain case; None if the agents have to be ranked.

    ``people`` are the names of the persons who take part, other than the author; ``last`` is the
    post before this one.
    """
    words = text.strip()
    if not candidates:
        return TriageDecision((), "no agent takes part that its author may ask", "rules")
    if len(words) <= SHORT_CHARS_MAX and (_THANKS.fullmatch(words) or _EMOJI.fullmatch(words)):
        return TriageDecision((), "it is a greeting, thanks or a short answer", "rules")
    if (named := _named_first(words, people)) is not None:
        return TriageDecision((), f"it is addressed to {named}", "rules")
    called = [one for one in candidates if _named_first(words, (one.name, one.agent)) is not None]
    if called:
        return TriageDecision((called[0].agent,), "it begins with the agent's name", "rules")
    if last is not None and last.is_answer_to_author and _is_follow_up(words):
        for one in candidates:
            if last.author == f"agent:{one.agent}":
                reason = "it is a question about what the agent has just answered"
                return TriageDecision((one.agent,), reason, "rules")
    return None


def parts_of_description(text: str) -> list[str]:
    """Return the parts of a description: each says one thing that the agent is good for."""
    return [part.strip() for part in _PART.split(text) if part.strip()]


def rank_agents(
    text: str, candidates: Sequence[TriageCandidate], vectors: TriageVectors | None
) -> RankResult:
    """Return the agents that a post concerns, best first; without vectors its words decide."""
    words = _score_words(text, candidates)
    if vectors is None:
        scores = words
        strength = max(words.values())
        asks = _sigmoid(_form(text, _BASE_WORDS, _FORM_WEIGHTS_WORDS) + 0.72 * strength)
        fits = strength > 0
    else:
        likeness = {one.agent: _likeness(one.agent, vectors) for one in candidates}
        scores = {
            one: like + _WORD_WEIGHT * words[one] + _familiarity(one, vectors)
            for one, like in likeness.items()
        }
        tone = _nearest(vectors.post, vectors.requests) - _nearest(vectors.post, vectors.small_talk)
        asks = _sigmoid(
            _form(text, _BASE, _FORM_WEIGHTS)
            + 0.48 * (max(likeness.values()) - 0.267) / 0.087
            + 1.18 * (tone + 0.016) / 0.076
            + 0.24 * (max(words.values()) - 0.736) / 0.679
        )
        fits = max(likeness.values()) >= _FITS_MIN
    order = sorted(scores, key=lambda one: (-scores[one], one))
    best = order[0]
    lead = scores[best] - (scores[order[1]] if len(order) > 1 else 0.0)
    ranked = tuple((one, round(scores[one], 3)) for one in order)
    agents: tuple[str, ...] = ()
    if asks >= _WAKES and fits:
        agents, reason = (best,), _told(asks, ranked)
    elif asks >= _WAKES:
        reason = "no description of an agent fits it"
    else:
        reason = f"it hardly asks an agent for anything ({asks:.2f})"
    is_clear = asks <= _UNCLEAR or (asks >= _CLEAR and fits and lead >= _MARGIN)
    return RankResult(TriageDecision(agents, reason, "rank"), is_clear, round(asks, 3), ranked)


def _told(asks: float, ranked: Sequence[tuple[str, float]]) -> str:
    (best, score), *others = ranked
    rest = f", before {others[0][0]} ({others[0][1]:.2f})" if others else ""
    return f"it asks for something ({asks:.2f}), and {best} fits best ({score:.2f}){rest}"


def _named_first(text: str, names: Sequence[str]) -> str | None:
    """Return the name that a text begins with, as in ``Eva, please …``."""
    for name in names:
        called = rf"(?:hey |hi |hello |@)?{re.escape(name)}\s*[,:!]"
        if name and re.match(called, text, re.IGNORECASE):
            return name
    return None


def _is_follow_up(text: str) -> bool:
    return len(text) <= FOLLOW_UP_CHARS_MAX and text.endswith("?")


def _form(text: str, base: float, weights: Sequence[float]) -> float:
    words = text.strip()
    signs = (
        _QUESTION.search(words),
        _REQUEST.search(words),
        _COMMAND.match(words),
        _OWN.match(words),
        _SETTLED.search(words),
    )
    return base + sum(weight for sign, weight in zip(signs, weights, strict=True) if sign)


def _score_words(text: str, candidates: Sequence[TriageCandidate]) -> dict[str, float]:
    """Return how many words of a text each agent's description has, the rarer the more."""
    known = {
        one.agent: frozenset(lexemes_of(f"{one.agent} {one.name} {one.description}"))
        for one in candidates
    }
    said = frozenset(lexemes_of(text))
    most = math.log(1 + len(candidates))
    scores: dict[str, float] = {}
    for agent, has in known.items():
        shared = said & has
        rarity = [
            math.log(1 + len(candidates) / sum(word in other for other in known.values()))
            for word in shared
        ]
        scores[agent] = min(math.fsum(rarity) / most, _WORDS_MAX)
    return scores


def _likeness(agent: str, vectors: TriageVectors) -> float:
    whole = _dot(vectors.post, vectors.descriptions[agent])
    return (whole + _nearest(vectors.post, vectors.parts[agent], 2)) / 2


def _familiarity(agent: str, vectors: TriageVectors) -> float:
    answered = vectors.answered.get(agent, ())
    return max(0.0, *(_dot(vectors.post, one) - _ALIKE_MIN for one in answered), 0.0)


def _nearest(one: Vector, others: Sequence[Vector], count: int = 3) -> float:
    """Return the mean likeness of the most similar ones."""
    best = sorted((_dot(one, other) for other in others), reverse=True)[:count]
    return sum(best) / len(best) if best else 0.0


def _dot(one: Vector, other: Vector) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def _sigmoid(number: float) -> float:
    return 1 / (1 + math.exp(-number))
