------------------------------- MODULE Stream --------------------------------
(* Votes in the devices' queue, rank by rank: which of the two ways a vote goes, and what it waits for there.        *)
(*                                                                                                                  *)
(*   a decision launches nothing:  the next vote goes between the hosts                                             *)
(*   it launches forward n:        the next turn enters  vote, forward n  in the devices' queue                     *)
(*                                                                                                                  *)
(*   a device's queue:  forward n-1 | vote | forward n                                                              *)
(*                                                                                                                  *)
(* So a vote is out once the forward before it has run, and what is decided by it is launched while the forward     *)
(* behind it runs. Which way it goes follows from the decision before, and not from what a rank sees of its device. *)
(* The decision is as small as it can be: it retires what all have passed, and launches if the leader wants to.     *)

EXTENDS Naturals, Sequences

CONSTANTS
    RankCount,    \* Ranks of the group; rank 1 leads.
    FlightLimit,  \* Forwards that may be in flight.
    Variant       \* Which rules are followed.

VARIABLES
    agreed,  \* By rank: what it holds as agreed: forwards in flight, and whether the newest is launched with the next vote.
    waits,   \* By rank: where its vote is: "none", "hosts" or "devices".
    ballot,  \* By rank: what it voted last.
    came,    \* By rank: what came out of the vote that it waits for; or Nothing.
    queue,   \* By rank: the devices' collectives that it entered and that some rank has not passed: [site, ballot].
    passed,  \* By rank: how many of these its device has passed.
    done     \* By rank: forwards that its device has passed and that are not agreed to have retired.

vars == <<agreed, waits, ballot, came, queue, passed, done>>

Ranks == 1..RankCount
Leader == 1
Nothing == [out |-> FALSE]
Silence == [done |-> 0, wants |-> FALSE]
All(value) == [rank \in Ranks |-> value]

Init ==
    /\ agreed = All([flying |-> 0, launching |-> FALSE])
    /\ waits = All("none") /\ ballot = All(Silence) /\ came = All(Nothing)
    /\ queue = All(<<>>) /\ passed = All(0) /\ done = All(0)

(* What comes out: the least count; what only the leader says, as it says it.                                       *)
Outcome(ballots) ==
    LET least == CHOOSE rank \in Ranks : \A other \in Ranks : ballots[rank].done <= ballots[other].done
    IN  [out |-> TRUE, retired |-> ballots[least].done, wants |-> ballots[Leader].wants]

(* ---- A turn ---------------------------------------------------------------------------------------------------- *)

(* Whether the vote goes in the devices' queue: by what is agreed. The variant looks whether its device is busy.     *)
InQueue(rank) ==
    /\ agreed[rank].launching
    /\ Variant = "chooses-alone" => done[rank] + 1 < agreed[rank].flying

Turn(rank) ==
    /\ waits[rank] = "none"
    /\ \E wants \in (IF rank = Leader THEN BOOLEAN ELSE {FALSE}) :
        LET sampled == [done |-> done[rank], wants |-> wants]
            vote == IF InQueue(rank) THEN << [site |-> "vote", ballot |-> sampled] >> ELSE <<>>
            forward == IF agreed[rank].launching THEN << [site |-> "forward", ballot |-> Silence] >> ELSE <<>>
            entered == IF Variant = "votes-behind" THEN forward \o vote ELSE vote \o forward
        IN  /\ ballot' = [ballot EXCEPT ![rank] = sampled]
            /\ queue' = [queue EXCEPT ![rank] = @ \o entered]
    /\ waits' = [waits EXCEPT ![rank] = IF InQueue(rank) THEN "devices" ELSE "hosts"]
    /\ agreed' = [agreed EXCEPT ![rank].launching = FALSE]
    /\ UNCHANGED <<came, passed, done>>

(* ---- Collectives ----------------------------------------------------------------------------------------------- *)

(* The vote between the hosts is out on all ranks once all have entered it.                                         *)
Complete ==
    /\ \A rank \in Ranks : waits[rank] = "hosts" /\ came[rank] = Nothing
    /\ came' = All(Outcome(ballot))
    /\ UNCHANGED <<agreed, waits, ballot, queue, passed, done>>

(* A device passes a collective that every rank has reached, here and there in its own time.                        *)
Reached(rank, place) == Len(queue[rank]) >= place /\ passed[rank] >= place - 1

Pass(rank) ==
    LET place == passed[rank] + 1
        count == [passed EXCEPT ![rank] = place]
        forgotten == IF \A other \in Ranks : count[other] > 0 THEN 1 ELSE 0
    IN  /\ \A other \in Ranks : Reached(other, place)
        /\ IF queue[rank][place].site = "forward"
           THEN done' = [done EXCEPT ![rank] = @ + 1] /\ UNCHANGED came
           ELSE /\ came' = [came EXCEPT ![rank] = Outcome([other \in Ranks |-> queue[other][place].ballot])]
                /\ UNCHANGED done
        /\ passed' = [other \in Ranks |-> count[other] - forgotten]
        /\ queue' = [other \in Ranks |-> SubSeq(queue[other], 1 + forgotten, Len(queue[other]))]
    /\ UNCHANGED <<agreed, waits, ballot>>

(* ---- The decision ---------------------------------------------------------------------------------------------- *)

Decide(rank) ==
    /\ came[rank] # Nothing
    /\ LET left == agreed[rank].flying - came[rank].retired
           launches == came[rank].wants /\ left < FlightLimit
       IN  agreed' = [agreed EXCEPT ![rank] =
               [flying |-> left + (IF launches THEN 1 ELSE 0), launching |-> launches]]
    /\ done' = [done EXCEPT ![rank] = @ - came[rank].retired]
    /\ waits' = [waits EXCEPT ![rank] = "none"] /\ came' = [came EXCEPT ![rank] = Nothing]
    /\ UNCHANGED <<ballot, queue, passed>>

Next == Complete \/ \E rank \in Ranks : Turn(rank) \/ Pass(rank) \/ Decide(rank)

Spec == Init /\ [][Next]_vars

(* ---- Properties ------------------------------------------------------------------------------------------------ *)

TypeOK ==
    /\ agreed \in [Ranks -> [flying : 0..FlightLimit, launching : BOOLEAN]]
    /\ waits \in [Ranks -> {"none", "hosts", "devices"}]
    /\ \A rank \in Ranks : passed[rank] <= Len(queue[rank]) /\ done[rank] \in 0..agreed[rank].flying

(* What ranks entered in the same place of their devices' queues is the same collective.                            *)
Matched == \A left, right \in Ranks : \A place \in DOMAIN queue[left] \cap DOMAIN queue[right] :
    queue[left][place].site = queue[right][place].site

(* Ranks between rounds hold the same as agreed.                                                                    *)
AgreedEqual == (\A rank \in Ranks : waits[rank] = "none") => \A left, right \in Ranks : agreed[left] = agreed[right]

(* No forward is queued behind one that runs: what a vote behind its own forward costs, and what this way is for.   *)
NeverAhead == \A rank \in Ranks :
    LET ahead == SubSeq(queue[rank], passed[rank] + 1, Len(queue[rank]))
    IN  ahead # <<>> /\ Head(ahead).site = "forward" => \A i \in 2..Len(ahead) : ahead[i].site # "forward"

==============================================================================
