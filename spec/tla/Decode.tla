------------------------------- MODULE Decode --------------------------------
(* The decode group at the level of what its ranks agree on, for any number of them and for endless traffic.        *)
(*                                                                                                                  *)
(*   Rules   sizes, and the rules that a decision follows                                                           *)
(*   Decide  the decision: record, retire, abort, poll, release, grow, resume, admit, compose                       *)
(*   Votes   what a round may bring: the reduced vote, the leader's word, the fabric                                *)
(*   Decode  this module: state, step, and what must always hold                                                    *)
(*   Live    what must go on for ever                                                                               *)
(*                                                                                                                  *)
(* No value here grows without bound: acceptance order is a sequence of slots, and a forward's number is its place  *)
(* in the queue. So endless traffic has finitely many states.                                                       *)

EXTENDS Votes

VARIABLES
    agreed,  \* What every rank holds: [table, ages, free, flights, verdicts].
    fabric,  \* By slot: what may still be written remotely, on the slowest rank.
    fault    \* The broken contract that the last decision found, or "none".

vars == <<agreed, fabric, fault, variant>>

Genesis ==
    [table |-> [slot \in Slots |-> Free], ages |-> <<>>, free |-> Pages, flights |-> <<>>, verdicts |-> <<>>]

Init ==
    /\ agreed = Genesis
    /\ fabric = [slot \in Slots |-> Unwritten]
    /\ fault = "none"
    /\ variant \in Variants

(* One turn of every rank's loop: what was voted and briefed is decided on.                                         *)
Step(round) ==
    LET decision == Decision(agreed, Received(round), Vote(round), Brief(agreed, round))
    IN  /\ agreed' = [part \in DOMAIN agreed |-> decision[part]]
        /\ fabric' = decision.fabric
        /\ fault' = decision.fault
        /\ UNCHANGED variant

(* A round that changes nothing is no step: then a deadlock is a group in which no round changes anything any more. *)
Next == SomeRound(agreed, fabric, Step) /\ vars' # vars

Spec == Init /\ [][Next]_vars

(* ---- Types ------------------------------------------------------------------------------------------------- *)

Outcomes == {"none", "stop", "length", "aborted"} \cup Failures
Grants == {"none", "queued", "published", "cancelling", "revoking"}
Phases == {"bootstrapping", "handshaken", "transferring", "ready", "running", "retracting", "retracted", "draining"}

IsTenant(tenant) ==
    /\ DOMAIN tenant = {"phase", "kind", "pages", "generated", "outcome"}
    /\ tenant.phase \in Phases
    /\ tenant.kind \in DOMAIN Kinds
    /\ tenant.pages \in Seq(Pages)
    /\ tenant.generated \in 0..KindOf(tenant).most
    /\ tenant.outcome \in Outcomes
    /\ tenant.outcome # "none" <=> tenant.phase = "draining"

IsRow(row) ==
    row.slot \in Slots /\ row.position \in 0..(PageCount * PageSize) /\ row.pages \in Seq(Pages)

Used == { slot \in Slots : agreed.table[slot].phase # "free" }

TypeOK ==
    /\ \A slot \in Used : IsTenant(agreed.table[slot])
    /\ \A slot \in Slots \ Used : agreed.table[slot] = Free
    /\ { agreed.ages[i] : i \in DOMAIN agreed.ages } = Used /\ Len(agreed.ages) = Cardinality(Used)
    /\ agreed.free \subseteq Pages
    /\ Len(agreed.flights) <= FlightLimit /\ Len(agreed.verdicts) <= Len(agreed.flights)
    /\ \A i \in DOMAIN agreed.flights : \A j \in DOMAIN agreed.flights[i] : IsRow(agreed.flights[i][j])
    /\ \A i \in DOMAIN agreed.verdicts : agreed.verdicts[i] \in [DOMAIN agreed.flights[i] -> BOOLEAN]
    /\ fabric \in [Slots -> [grant : Grants, pages : { fabric[slot].pages : slot \in Slots }, whole : BOOLEAN]]
    /\ \A slot \in Slots : fabric[slot].pages \in Seq(Pages)
    /\ variant \in AllVariants

(* ---- Properties -------------------------------------------------------------------------------------------- *)

PagesOf(pages) == { pages[i] : i \in DOMAIN pages }
Held(slot) == IF slot \in Used THEN agreed.table[slot].pages ELSE <<>>

InFlight == UNION { PagesOf(agreed.flights[i]) : i \in DOMAIN agreed.flights }

(* No event is impossible in the phase it meets: no rank of an honest group ends with a fault.                      *)
NoFault == fault # "no-fault"

(* No element of a vote is applied to another occupant or attempt than it was sampled for.                          *)
VoteFresh == fault # "vote-fresh"

(* No page has two owners, none is lost and none is made up.                                                        *)
PagesSound ==
    LET held[i \in 0..SlotCount] == IF i = 0 THEN 0 ELSE held[i - 1] + Len(Held(i))
    IN  /\ agreed.free \cup UNION { PagesOf(Held(slot)) : slot \in Slots } = Pages
        /\ Cardinality(agreed.free) + held[SlotCount] = PageCount

(* No page is free, or another request's, while a forward, a remote write or a queued publish may still touch it.   *)
NoWriteAfterFree ==
    /\ fault # "no-write-after-free"
    /\ \A row \in InFlight : PagesOf(row.pages) \subseteq PagesOf(Held(row.slot))
    /\ \A slot \in Slots : PagesOf(fabric[slot].pages) \subseteq PagesOf(Held(slot))

(* What is in flight has its KV whole, and no remote write can reach it.                                            *)
KvBeforeRun == \A row \in InFlight : fabric[row.slot].whole /\ fabric[row.slot].grant = "none"

(* A constraint for runs of broken variants: what comes after a violation is nobody's business.                     *)
Sound == NoFault /\ VoteFresh /\ PagesSound /\ NoWriteAfterFree /\ KvBeforeRun

==============================================================================
