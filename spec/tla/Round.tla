-------------------------------- MODULE Round --------------------------------
(* The round, rank by rank: which collectives a rank enters, and what becomes of a group in which one dies.         *)
(*                                                                                                                  *)
(*   outside --enter--> [ vote ] --take--> words? --enter--> [ brief ] --take--> decide --> outside                 *)
(*                                            \____________ none _____________^    \--> [ forward ] on the device   *)
(*                                                                                                                  *)
(* One slot and one request at a time; the decision is as small as it can be and still guard a collective. What one *)
(* rank alone knows (that KV landed, that its device is done, that the leader has words) is payload of the vote;    *)
(* whether a rank enters the brief or the forward follows from what came out. The variants read a local fact there. *)
(*                                                                                                                  *)
(* A rank waits in one collective of the hosts at a time. What it entered is in `waits` until all have entered, and *)
(* what came out is in `came` until it takes it; by then others may wait in the next one. So two ranks that wait at *)
(* the same time wait in collectives of the same place in their order, and must have entered the same one.          *)

EXTENDS Naturals, Sequences

CONSTANTS
    RankCount,  \* Ranks of the group; rank 1 leads.
    Crashes,    \* Most crashes.
    Variant     \* Which rules are followed.

VARIABLES
    waits,    \* By rank: the collective of the hosts that it has entered, with what it brought; or Nothing.
    came,     \* By rank: what came out of the collective that it has not taken; or Nothing.
    vote,     \* By rank: what came out of the vote, while it waits in the brief; or Nothing.
    agreed,   \* By rank: what it holds as agreed: whether the slot is taken, and whether a forward is in flight.
    landed,   \* By rank: whether the request's KV is whole here.
    device,   \* By rank: "idle", "queued" or "done": its part in the forward.
    asked,    \* Whether the front end has a request of which the leader has not told the group.
    alive,    \* By rank: whether it lives.
    crashes   \* Ranks that died so far.

vars == <<waits, came, vote, agreed, landed, device, asked, alive, crashes>>

Ranks == 1..RankCount
Leader == 1
Nothing == [site |-> "none"]

Idle == [taken |-> FALSE, flying |-> FALSE]
All(value) == [rank \in Ranks |-> value]

Init ==
    /\ waits = All(Nothing) /\ came = All(Nothing) /\ vote = All(Nothing)
    /\ agreed = All(Idle) /\ landed = All(FALSE) /\ device = All("idle")
    /\ asked = FALSE
    /\ alive = All(TRUE) /\ crashes = 0

(* ---- Local facts: they enter no collective --------------------------------------------------------------------- *)

Ask ==
    /\ ~asked /\ asked' = TRUE
    /\ UNCHANGED <<waits, came, vote, agreed, landed, device, alive, crashes>>

Land(rank) ==
    /\ alive[rank] /\ agreed[rank].taken /\ ~landed[rank]
    /\ landed' = [landed EXCEPT ![rank] = TRUE]
    /\ UNCHANGED <<waits, came, vote, agreed, device, asked, alive, crashes>>

(* The forward is a collective of the devices: it ends, here and there in its own time, once all have it.           *)
Finish(rank) ==
    /\ alive[rank] /\ device[rank] = "queued" /\ \A other \in Ranks : device[other] # "idle"
    /\ device' = [device EXCEPT ![rank] = "done"]
    /\ UNCHANGED <<waits, came, vote, agreed, landed, asked, alive, crashes>>

(* ---- Collectives of the hosts ---------------------------------------------------------------------------------- *)

(* The vote is entered always, by every rank: nothing guards it. The leader says whether it has words.              *)
Turn(rank) ==
    /\ alive[rank] /\ waits[rank] = Nothing /\ came[rank] = Nothing /\ vote[rank] = Nothing
    /\ Variant = "polls-alone" => ~landed[rank]
    /\ LET says == rank = Leader /\ asked /\ ~agreed[rank].taken
           ballot == [landed |-> landed[rank], done |-> device[rank] = "done", says |-> says]
       IN  waits' = [waits EXCEPT ![rank] = [site |-> "vote", ballot |-> ballot]]
    /\ UNCHANGED <<came, vote, agreed, landed, device, asked, alive, crashes>>

(* What came out: flags by MIN; what only the leader says, as it says it.                                           *)
Outcome ==
    [landed |-> \A rank \in Ranks : waits[rank].ballot.landed,
     done |-> \A rank \in Ranks : waits[rank].ballot.done,
     says |-> waits[Leader].ballot.says]

Complete ==
    /\ \A rank \in Ranks : waits[rank] # Nothing
    /\ LET site == waits[Leader].site
           out == IF site = "vote" THEN [site |-> site, outcome |-> Outcome] ELSE [site |-> site]
       IN  came' = All(out)
    /\ waits' = All(Nothing)
    /\ UNCHANGED <<vote, agreed, landed, device, asked, alive, crashes>>

(* Whether a rank enters the brief: by what came out of the vote, and not by what it knows by now.                  *)
EntersBrief(rank, outcome) ==
    IF Variant = "reads-again" /\ rank = Leader THEN asked /\ ~agreed[rank].taken ELSE outcome.says

(* Whether it launches: KV is whole on every rank.                                                                  *)
Launches(rank, state, outcome) ==
    /\ state.taken /\ ~state.flying
    /\ IF Variant = "launches-alone" THEN landed[rank] ELSE outcome.landed

(* The decision: the end of a forward frees the slot, a brief takes it, and whoever may run is launched.            *)
Decide(rank, outcome, briefed) ==
    LET before == agreed[rank]
        ends == before.flying /\ outcome.done
        launches == Launches(rank, before, outcome)
    IN  /\ agreed' = [agreed EXCEPT ![rank] =
                [taken |-> (before.taken /\ ~ends) \/ briefed, flying |-> (before.flying /\ ~ends) \/ launches]]
        /\ landed' = [landed EXCEPT ![rank] = @ /\ ~ends]
        /\ device' = [device EXCEPT ![rank] = IF launches THEN "queued" ELSE IF ends THEN "idle" ELSE @]

TakeVote(rank) ==
    /\ alive[rank] /\ came[rank].site = "vote"
    /\ came' = [came EXCEPT ![rank] = Nothing]
    /\ LET outcome == came[rank].outcome
       IN  IF EntersBrief(rank, outcome)
           THEN /\ waits' = [waits EXCEPT ![rank] = [site |-> "brief"]]
                /\ vote' = [vote EXCEPT ![rank] = [site |-> "vote", outcome |-> outcome]]
                /\ UNCHANGED <<agreed, landed, device>>
           ELSE Decide(rank, outcome, FALSE) /\ UNCHANGED <<waits, vote>>
    /\ UNCHANGED <<asked, alive, crashes>>

TakeBrief(rank) ==
    /\ alive[rank] /\ came[rank].site = "brief"
    /\ came' = [came EXCEPT ![rank] = Nothing]
    /\ vote' = [vote EXCEPT ![rank] = Nothing]
    /\ Decide(rank, vote[rank].outcome, TRUE)
    /\ asked' = (asked /\ rank # Leader)
    /\ UNCHANGED <<waits, alive, crashes>>

(* ---- Death ----------------------------------------------------------------------------------------------------- *)

(* What it entered stays entered. A collective that lacks it never completes.                                       *)
Die(rank) ==
    /\ crashes < Crashes /\ alive[rank]
    /\ alive' = [alive EXCEPT ![rank] = FALSE] /\ crashes' = crashes + 1
    /\ UNCHANGED <<waits, came, vote, agreed, landed, device, asked>>

(* A deadline passes. All ranks are ended, and the next epoch starts from nothing but what the front end has open.  *)
NextEpoch ==
    /\ Variant # "dies-unnoticed" /\ \E rank \in Ranks : ~alive[rank]
    /\ waits' = All(Nothing) /\ came' = All(Nothing) /\ vote' = All(Nothing)
    /\ agreed' = All(Idle) /\ landed' = All(FALSE) /\ device' = All("idle")
    /\ asked' = (asked \/ \E rank \in Ranks : agreed[rank].taken)
    /\ alive' = All(TRUE)
    /\ UNCHANGED crashes

Next ==
    \/ Ask \/ Complete \/ NextEpoch
    \/ \E rank \in Ranks :
        Land(rank) \/ Finish(rank) \/ Turn(rank) \/ TakeVote(rank) \/ TakeBrief(rank) \/ Die(rank)

Spec == Init /\ [][Next]_vars

(* ---- Properties ------------------------------------------------------------------------------------------------ *)

TypeOK ==
    /\ \A rank \in Ranks : {waits[rank].site, came[rank].site} \subseteq {"none", "vote", "brief"}
    /\ agreed \in [Ranks -> [taken : BOOLEAN, flying : BOOLEAN]]
    /\ landed \in [Ranks -> BOOLEAN] /\ device \in [Ranks -> {"idle", "queued", "done"}]
    /\ asked \in BOOLEAN /\ alive \in [Ranks -> BOOLEAN] /\ crashes \in 0..Crashes

(* Ranks that wait at the same time wait in the same collective.                                                    *)
Matched == \A left, right \in Ranks :
    waits[left] # Nothing /\ waits[right] # Nothing => waits[left].site = waits[right].site

(* Two ranks between rounds, with nothing to take, hold the same as agreed.                                         *)
Outside(rank) == came[rank] = Nothing /\ vote[rank] = Nothing
AgreedEqual ==
    (\A rank \in Ranks : alive[rank] /\ Outside(rank)) => \A left, right \in Ranks : agreed[left] = agreed[right]

(* What is launched has its KV whole, on every rank.                                                                *)
KvBeforeRun == \A rank \in Ranks : device[rank] = "queued" => landed[rank]

(* As long as all live, something can happen that is not a new request: nobody waits for one that stays away.       *)
Moves == Complete \/ NextEpoch \/ \E rank \in Ranks :
    Land(rank) \/ Finish(rank) \/ Turn(rank) \/ TakeVote(rank) \/ TakeBrief(rank)
NoStuck == ENABLED Moves

==============================================================================
