"""The ledger's invariants by number, and the SQL statements that find violations.

It says what each invariant and each check means; ``turn_checker`` and ``event_checker`` check the
bytes. The numbers are those of ``docs/reference/invariants.md``.
"""

from collections.abc import Mapping
from typing import Final

from turntree.core.value import value

INVARIANTS: Final[Mapping[str, str]] = {
    "I1": (
        "The id of an event, the address of an object and the address of imported records are "
        "the sha256 of the stored bytes."
    ),
    "I2": "Stored bytes are canonical, and the derived columns match them.",
    "I3": "No event exists twice, neither by its id nor by its position.",
    "I4": (
        "Every timestamp is ISO 8601 in UTC with milliseconds, and every validity starts "
        "before it ends."
    ),
    "I6": "Every reference leads to an existing item of the right kind.",
    "I7": "Every turn but a root has a parent that exists.",
    "I8": "A turn is one deeper than its parent and a root has depth 1, so there is no cycle.",
    "I9": "A position (segment, depth) belongs to one turn, so every turn has one thread.",
    "I10": (
        "Following parents and reading segments give the same thread: segments, ordinals and "
        "jump pointers are as appending creates them."
    ),
    "I11": "The children of a turn by segments are its children by parents.",
    "I12": (
        "Every body proves its turn's digest and follows its parent, every erased message and "
        "record has its receipt, and the triggers that refuse changes are enabled."
    ),
    "I13": "No two turns, segments or sessions share an id, and no two turns a digest.",
    "I14": (
        "The rows of tool calls, files, model calls, compactions and links match the body and "
        "the events, and no turn is sealed before it started."
    ),
    "I15": "A body holds as many messages as its header counts.",
    "I16": (
        "A turn has a query, a completed turn has a reply, and each message has a role that "
        "fits its side."
    ),
    "I17": "Every tool call of a sealed turn has a result.",
    "I18": "A result names one call of its turn, and a call has one result.",
    "I19": "Only a query message has a source.",
    "I20": "A message lists a file once for each kind of use.",
    "I21": "A turn uses no tool that its manifest lacks, if the manifest names tools.",
    "I22": "A turn uses no tool that the permissions it pins deny.",
    "I23": "A turn is a compaction exactly if it has details of one.",
    "I24": (
        "A compaction summarizes its ancestors, keeps the turns after them, and counts them "
        "correctly."
    ),
    "I26": "Every session that has a head points at a turn that exists.",
    "I27": (
        "Every move of a session is in its reflog and its stream, without gaps. The newest "
        "move leads to the head, and the reach and the idempotency keys follow from the "
        "moves."
    ),
    "I28": "Every move is valid for its kind.",
    "I29": "A session advances only to a turn whose parent was its head, and once per version.",
    "I30": "Every session has one label, and every name leads to one session that exists.",
    "I31": (
        "A subagent's session was spawned by a call of a turn in its parent's session, and "
        "its first event says so."
    ),
    "I32": "Two sessions of one importing user never come from the same transcript.",
    "I34": "The events of a stream have the positions 0 to n-1, and a session knows the next one.",
    "I35": "A run starts once, with its first event, and finishes at most once, with a turn.",
    "I36": "A model's response that names a request follows that request.",
    "I37": (
        "Every object that a message or a manifest refers to exists, and so do the messages "
        "of an open run and the records that were read."
    ),
    "I38": "An interrupted run did not continue, and its open calls ended as interrupted.",
    "I39": "A replaced event is kept, does not replace itself, and replacements form no cycle.",
    "I40": "What a turn was derived from exists, and nothing is derived from itself.",
    "I41": (
        "The policy in force is the one that a person activated last, and each version has the "
        "source that was proposed."
    ),
    "I42": (
        "In a run whose calls were judged, each call that began was judged before, with exactly "
        "its arguments, and not denied."
    ),
    "I43": "A session uses a resource from attaching to detaching, for reading or for writing.",
    "I44": (
        "A snapshot is of a resource that supports it, has a digest and matches its event, "
        "and a turn refers to snapshots of the resource it names."
    ),
    "I45": "What cannot be restored never is, and a failed attempt leaves no resource.",
    "I46": (
        "A fork decides once about each attached resource: one branch keeps what is kept, "
        "what is forked has a snapshot, and resources with outside effects are not forked."
    ),
    "I47": "No handle can be restored.",
    "I48": "Liveness and leases of a resource appear in no event except the probe's.",
    "I49": "The bytes of a resource are not in the ledger, only their location.",
    "I50": "Who takes part in a conversation follows from its events.",
    "I51": (
        "A post is as its event describes it, and its author took part when it was posted; a post "
        "of the system has no author."
    ),
    "I52": (
        "An agent answers in a session of its own, which hears one conversation and is read by "
        "its readers alone, and each turn there has one post in that conversation, or is a "
        "decision about one."
    ),
    "I53": "A post is erased only by its author or the creator of the conversation.",
    "I54": "A system agent is never removed from a conversation.",
    "I55": (
        "A person's post without a mention, in a conversation with triage, has one decision "
        "about who answers it, or waits for one."
    ),
    "I56": "A conversation knows its last post, and its posts have no gap.",
    "I57": "An address names one program, and the stored references match the config.",
    "I58": "A program's state changes only as its lifecycle allows.",
    "I59": "A session's status and a program's row follow from their events.",
    "I60": (
        "A grant names a delegation chain that starts with a human or the system and has no "
        "cycle, and permits no more than every link."
    ),
    "I61": "Nothing that looks like a secret key is stored.",
    "I62": "Search rows belong to existing turns, and the vectors of one embedder have one length.",
    "I63": "A turn's tags follow from its events.",
    "I65": "Nothing refers to another workspace, and every table separates workspaces.",
    "I67": (
        "A message waits with its text or has started a run, a session has at most one open "
        "run, and no session is idle while it has work."
    ),
    "I68": (
        "Every file and folder of every snapshot on this machine that a turn refers to is "
        "stored, under the sha256 of its bytes."
    ),
    "I69": (
        "A workspace's members, invitations, API keys, login sessions, linked accounts and "
        "passwords follow from its events, and one member is an admin."
    ),
    "I70": (
        "A request is decided once, by a person who was asked, and a call that "
        "they allowed starts once, with exactly the arguments that they allowed."
    ),
}
WARNINGS: Final = frozenset({"I61"})
"""Invariants whose violations a person has to judge."""


@value
class Check:
    """A SQL statement that returns the subjects for which a sentence is true."""

    query: str
    sentence: str

    @property
    def invariant(self) -> str:
        """The number of the invariant that its subjects violate."""
        return f"I{int(self.query.split('_')[1].removeprefix('i'))}"


TREE: Final = (
    Check("fsck_i07", "its parent does not exist"),
    Check("fsck_i08", "its depth is not one more than its parent's"),
    Check("fsck_i09", "two turns hold this place"),
    Check("fsck_i10_place", "it stands outside its segment"),
    Check("fsck_i10_walk", "its parent is not the turn above it in its segment"),
    Check("fsck_i10_segment", "the segment does not fit below the one it forks from"),
    Check("fsck_i10_jump", "the segment's jump pointer is not the one that the rule gives"),
    Check("fsck_i11", "it is a child by its parent or by its segment, not by both"),
    Check("fsck_i12_bodies", "there is a turn without a body, or a body without a turn"),
    Check("fsck_i12_triggers", "facts could be changed here"),
    Check("fsck_i13", "two things share this"),
    Check("fsck_i14_times", "it was sealed before it started"),
    Check("fsck_i14_strays", "there is no such turn"),
    Check("fsck_i20", "a file stands twice beside a message"),
    Check("fsck_i23", "it is a compaction without details, or has details without being one"),
)
"""Checks of the tree's structure. After a violation here, ``WALKS`` are skipped."""

SESSIONS: Final = (
    Check("fsck_i03", "the event stands twice"),
    Check("fsck_i06", "it refers to a thing of another kind"),
    Check("fsck_i26", "its head does not exist"),
    Check("fsck_i27_versions", "its reflog has a gap"),
    Check("fsck_i27_head", "it stands elsewhere than its newest move says"),
    Check("fsck_i27_chain", "the move begins elsewhere than the one before it ended"),
    Check("fsck_i27_events", "the move and the event that tells of it differ, or one is missing"),
    Check("fsck_i27_reach", "how deep the session stood here is not what its reflog says"),
    Check("fsck_i27_keys", "the key was answered with a move that does not exist"),
    Check("fsck_i28_shape", "a move of this kind cannot stand or lead here"),
    Check("fsck_i28_undo", "it does not go back to where the move it takes back began"),
    Check("fsck_i29_parent", "the session advanced to a turn that does not follow its head"),
    Check("fsck_i29_twice", "two moves left from one version"),
    Check("fsck_i30_label", "the session has no label, or several"),
    Check("fsck_i30_name", "the name leads to no session, or to several"),
    Check("fsck_i31", "the session, the call that began it and the event of it do not agree"),
    Check("fsck_i32", "two sessions come from here"),
    Check("fsck_i34_places", "the stream has a gap"),
    Check("fsck_i34_next", "the session's next place is not the end of its stream"),
    Check("fsck_i35", "the run did not start once, finish once and leave its turn"),
    Check("fsck_i37_payloads", "what the open run said here is missing, or something else"),
    Check("fsck_i38", "the run went on after it was interrupted, or did not end so"),
    Check("fsck_i42", "a call began that was not judged with these arguments, or was denied"),
    Check("fsck_i43", "what is attached is not what its events tell of"),
    Check("fsck_i44", "the state is not one that could be kept, or not as its event says"),
    Check("fsck_i45", "something was brought back that cannot be"),
    Check("fsck_i46", "the fork does not say once of each resource what becomes of it"),
    Check("fsck_i47", "the handle claims that it can be brought back"),
    Check("fsck_i48", "advice stands in a fact"),
    Check("fsck_i49", "the bytes of a resource stand in a fact"),
    Check("fsck_i59", "its status is not the one that its events tell of"),
    Check("fsck_i62_documents", "search keeps the words of a turn that does not exist"),
    Check(
        "fsck_i62_embeddings", "the vector is of no turn, or not as long as its embedder's others"
    ),
    Check("fsck_i67_inbox", "the message and the run that it began do not agree"),
    Check("fsck_i67_queues", "the session counts other messages than it was sent, or sleeps"),
    Check("fsck_i67_runs", "two runs are open in the session"),
    Check("fsck_i67_parked", "the run is parked, and its events do not say so"),
    Check("fsck_i50", "who takes part is not who the events name"),
    Check("fsck_i51_events", "the post and the event that describes it differ, or one is missing"),
    Check("fsck_i51_authors", "its author took no part when it was posted"),
    Check("fsck_i52_sessions", "it is no session in which one agent answers one conversation"),
    Check("fsck_i52_messages", "no post of the conversation led to this message"),
    Check("fsck_i52_answers", "the turn and the posts of its conversation do not agree"),
    Check("fsck_i53", "the post was erased without an event, or by another than may erase it"),
    Check("fsck_i54", "a system agent was removed"),
    Check("fsck_i55_missing", "it has no mention, and nothing was decided about it"),
    Check("fsck_i55_events", "the decision about it and the event that describes it differ"),
    Check("fsck_i55_turns", "the decision is about no person's post, or no turn of triage made it"),
    Check("fsck_i56", "the conversation has another last post, or a gap before it"),
    Check("fsck_i41_versions", "the version is not the one that was proposed"),
    Check("fsck_i41_active", "another policy is in force than the one that was activated last"),
    Check("fsck_i69_members", "the member's role is not the one that the events describe"),
    Check("fsck_i69_invitations", "the invitation did not end as the events describe"),
    Check("fsck_i69_keys", "the key is not the one that the events describe"),
    Check("fsck_i69_login_sessions", "the login session is not the one that the events describe"),
    Check("fsck_i69_identities", "the linked account is not the one that the events describe"),
    Check("fsck_i69_passwords", "the events and the table disagree about a password"),
    Check("fsck_i69_admin", "the workspace has members, and none of them is an admin"),
    Check("fsck_i70_events", "what was decided is not what its event says"),
    Check("fsck_i70_people", "it was decided by another than a person who was asked"),
    Check("fsck_i70_calls", "the call did not start once, as it was allowed"),
    Check("fsck_i70_runs", "it waits for a run that is over, or keeps the arguments of one"),
    Check("fsck_i65_references", "it refers to something that is not in its workspace"),
    Check("fsck_i65_row_security", "the table does not keep workspaces apart"),
    Check("fsck_i65_functions", "the function lends the rights of another than the searcher"),
    Check("fsck_i65_keys", "the foreign key could lead into another workspace"),
)
PROGRAMS: Final = (
    Check("fsck_i57_names", "two programs have this name"),
    Check("fsck_i59_programs", "its events tell of a program that is not there"),
)
"""``program_checker`` checks the rest, from the events of programs."""

WALKS: Final = (
    Check("fsck_i24_path", "it does not summarise its ancestors and keep what follows them"),
    Check("fsck_i24_count", "it does not summarise as many turns as it says"),
    Check("fsck_i28_rewind", "it rewound to a turn that is no ancestor"),
    Check("fsck_i31_path", "its parent's session never held the turn that began it"),
)
"""Checks that follow pointers, and so terminate only in a sound tree."""

OBJECTS: Final = (
    Check("fsck_i12_records", "records were taken out without a receipt"),
    Check("fsck_i37_records", "the records are missing"),
    Check("fsck_i01_objects", "its bytes have another digest"),
    Check("fsck_i51_digests", "its words have another digest"),
    Check("fsck_i14_holders", "objects are noted under it, and it is neither a turn nor a run"),
    Check("fsck_i14_links", "what it says of two things is not what stands beside it"),
    Check("fsck_i61_objects", "what looks like a secret key stands in it"),
)
