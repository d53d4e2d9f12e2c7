------------------------------- MODULE Decode --------------------------------
(* The decode group at the level of what its ranks agree on, for any number of them and for endless traffic.        *)
(*                                                                                                                  *)
(*   Rules   sizes, and the rules that a decision follows                                                           *)
(*   Decide  the decision: record, retire, copy, abort, poll, release, grow, resume, admit, compose                 *)
(*   Votes   what a round may bring: the reduced vote, the leader's word, the fabric                                *)
(*   Decode  this module: state, step, and what must always hold                                                    *)
(*   Live    what must go on for ever                                                                               *)
(*                                                                                                                  *)
(* No value here grows without bound: acceptance order is a sequence of slots, and a forward's number is its place  *)
(* in the queue. So endless traffic has finitely many states.                                                       *)

EXTENDS Votes

VARIABLES
    agreed,  \* What every rank holds: [table, ages, free, hosts, copies, flights, verdicts].
    fabric,  \* By slot: what may still be written remotely, on the slowest rank.
    fault    \* The broken contract that the last decision found, or "none".

vars == <<agreed, fabric, fault, variant>>

Genesis ==
    [table |-> [slot \in Slots |-> Free], ages |-> <<>>, free |-> Pages, hosts |-> Hosts, copies |-> <<>>,
     flights |-> <<>>, verdicts |-> <<>>]

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
Phases == {"bootstrapping", "handshaken", "transferring", "ready", "running", "retracting", "retracted", "stored",
           "restoring", "draining"}

IsTenant(tenant) ==
    /\ DOMAIN tenant = {"phase", "kind", "pages", "copy", "generated", "outcome"}
    /\ tenant.phase \in Phases
    /\ tenant.kind \in DOMAIN Kinds
    /\ tenant.pages \in Seq(Pages) /\ tenant.copy \in Seq(Hosts)
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
    /\ agreed.free \subseteq Pages /\ agreed.hosts \subseteq Hosts
    /\ agreed.copies \in Seq([way : {"store", "load"}, page : Pages, host : Hosts])
    /\ Len(agreed.flights) <= FlightLimit /\ Len(agreed.verdicts) <= Len(agreed.flights)
    /\ \A i \in DOMAIN agreed.flights : \A j \in DOMAIN agreed.flights[i] : IsRow(agreed.flights[i][j])
    /\ \A i \in DOMAIN agreed.verdicts : agreed.verdicts[i] \in [DOMAIN agreed.flights[i] -> BOOLEAN]
    /\ fabric \in [Slots -> [grant : Grants, pages : { fabric[slot].pages : slot \in Slots }, whole : BOOLEAN]]
    /\ \A slot \in Slots : fabric[slot].pages \in Seq(Pages)
    /\ variant \in AllVariants

(* ---- Properties -------------------------------------------------------------------------------------------- *)

Held(slot) == IF slot \in Used THEN agreed.table[slot].pages ELSE <<>>
Stored(slot) == IF slot \in Used THEN agreed.table[slot].copy ELSE <<>>

InFlight == UNION { Range(agreed.flights[i]) : i \in DOMAIN agreed.flights }

(* No event is impossible in the phase it meets: no rank of an honest group ends with a fault.                      *)
NoFault == fault # "no-fault"

(* No element of a vote is applied to another occupant or attempt than it was sampled for.                          *)
VoteFresh == fault # "vote-fresh"

(* No page has two owners, none is lost and none is made up; nor are the hosts'.                                    *)
Accounted(free, Owned(_), all) ==
    LET owned[i \in 0..SlotCount] == IF i = 0 THEN 0 ELSE owned[i - 1] + Len(Owned(i))
    IN  /\ free \cup UNION { Range(Owned(slot)) : slot \in Slots } = all
        /\ Cardinality(free) + owned[SlotCount] = Cardinality(all)
PagesSound == Accounted(agreed.free, Held, Pages) /\ Accounted(agreed.hosts, Stored, Hosts)

(* No page is free, or another request's, while a forward, a remote write, a queued publish or a copy may still     *)
(* touch it.                                                                                                        *)
NoWriteAfterFree ==
    /\ fault # "no-write-after-free"
    /\ \A row \in InFlight : Range(row.pages) \subseteq Range(Held(row.slot))
    /\ \A slot \in Slots : Range(fabric[slot].pages) \subseteq Range(Held(slot))
    /\ \A copy \in Range(agreed.copies) : \E slot \in Slots : copy.page \in Range(Held(slot))

(* What is in flight has its KV whole and here, and no remote write can reach it.                                   *)
KvBeforeRun == \A row \in InFlight :
    fabric[row.slot].whole /\ fabric[row.slot].grant = "none" /\ ~Loading(agreed, row.pages)

(* A constraint for runs of broken variants: what comes after a violation is nobody's business.                     *)
Sound == NoFault /\ VoteFresh /\ PagesSound /\ NoWriteAfterFree /\ KvBeforeRun

==============================================================================
