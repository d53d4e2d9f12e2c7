-------------------------------- MODULE Votes --------------------------------
(* What a round may bring: how the fabric moves on before the vote is sampled, how the vote may come out, and what  *)
(* the leader may say. Ranks appear nowhere. A reduced vote says how far the slowest of them is, so for any number  *)
(* of ranks it is one of those that the agreed phases and the fabric allow.                                         *)

EXTENDS Decide

(* All functions that give each slot a value of its own set.                                                        *)
Choices(Of(_)) ==
    { choice \in [Slots -> UNION { Of(slot) : slot \in Slots }] : \A slot \in Slots : choice[slot] \in Of(slot) }

Unwritten == [grant |-> "none", pages |-> <<>>, whole |-> FALSE]

(* On the slowest rank a queued page list reaches the fabric, or the last fence completes; or neither does yet.     *)
FabricMoves(fabric) ==
    LET of(slot) ==
            LET seen == fabric[slot]
            IN  {seen} \cup
                CASE seen.grant = "queued" -> { [seen EXCEPT !.grant = "published"] }
                  [] seen.grant \in {"cancelling", "revoking"} -> { [Unwritten EXCEPT !.whole = seen.whole] }
                  [] OTHER -> {}
    IN  Choices(of)

Late == IF Breakage = "deadline" THEN {"deadline-passed"} ELSE {}

(* Reduced polls of a slot. What waits for nothing votes the neutral value, which is the highest.                   *)
Polls(phase, published) ==
    CASE phase \in {"bootstrapping", "retracted"} ->
            {"bootstrapping", "waiting-for-input"} \cup Late
                \cup (IF Breakage = "handshake" THEN {"handshake-failed"} ELSE {})
      [] phase = "handshaken" -> {"waiting-for-input"}
      [] phase = "transferring" ->
            {"transferring"} \cup Late
                \cup (IF published THEN {"success"} ELSE {})
                \cup (IF published /\ Breakage = "transfer" THEN {"transfer-failed", "corrupt", "wrong-leg"} ELSE {})
      [] OTHER -> {"success"}

PollMoves(agreed, fabric) ==
    LET of(slot) == Polls(agreed.table[slot].phase, fabric[slot].grant = "published") IN Choices(of)

(* The leader says nothing, that a request of some kind arrived, or which one is aborted.                           *)
Silence == [arrival |-> 0, aborts |-> <<>>]
Words(agreed) ==
    LET phase(slot) == agreed.table[slot].phase
        arrivals == IF \E slot \in Slots : phase(slot) = "free" THEN DOMAIN Kinds ELSE {}
        aborted == IF Aborts THEN { slot \in Slots : phase(slot) \notin {"free", "draining"} } ELSE {}
    IN  {Silence} \cup { [Silence EXCEPT !.arrival = kind] : kind \in arrivals }
                  \cup { [Silence EXCEPT !.aborts = <<slot>>] : slot \in aborted }

(* Forwards that every rank has retired, with those that the leader has: never fewer, and it never goes back.       *)
Retirements(agreed) ==
    LET flights == Len(agreed.flights)
        judged(retired) == Max(retired, Len(agreed.verdicts))..flights
    IN  UNION { { [retired |-> retired, judged |-> count] : count \in judged(retired) } : retired \in 0..flights }

(* The leader's verdict on a row: whether the token that it samples ends the output.                                *)
Verdict(agreed, row) ==
    LET tenant == agreed.table[row.slot]
    IN  tenant.phase # "free" /\ row.position + 1 - KindOf(tenant).prompt = KindOf(tenant).stopAt

Verdicts(agreed, judged) ==
    LET known == Len(agreed.verdicts)
        of(flight) == [i \in DOMAIN flight |-> Verdict(agreed, flight[i])]
    IN  [i \in 1..(judged - known) |-> of(agreed.flights[known + i])]

(* Some way in which the next round may go.                                                                         *)
SomeRound(agreed, fabric, Goes(_)) ==
    \E moved \in FabricMoves(fabric) :
        \E count \in Retirements(agreed), copied \in 0..Len(agreed.copies),
           word \in Words(agreed), polls \in PollMoves(agreed, moved) :
            Goes([count |-> count, copied |-> copied, word |-> word, fabric |-> moved, polls |-> polls])

Vote(round) ==
    [retired |-> round.count.retired, copied |-> round.copied, polls |-> round.polls,
     drained |-> [slot \in Slots |-> Drained(round.fabric[slot].grant)]]

Brief(agreed, round) ==
    [verdicts |-> Verdicts(agreed, round.count.judged), arrival |-> round.word.arrival, aborts |-> round.word.aborts]

(* The fabric as the vote finds it: an agreed success says that KV is whole on every rank.                          *)
Received(round) ==
    [slot \in Slots |->
        LET seen == round.fabric[slot]
        IN  [seen EXCEPT !.whole = @ \/ (round.polls[slot] = "success" /\ seen.grant = "published")]]

==============================================================================
