-------------------------------- MODULE Live ---------------------------------
(* Nobody starves, provided that each fact that somebody waits for is eventually voted.                             *)
(*                                                                                                                  *)
(* What a round brought is kept for one state in `served`, and `odd` tells it from the round before: then fairness  *)
(* is about states alone, and a round counts also when it serves and changes nothing else. No fairness demands that *)
(* a request arrives, is aborted or fails.                                                                          *)

EXTENDS Decode

VARIABLES
    served,  \* Slots whose fact the last round voted; 0 if forwards retired in it, -1 if copies were made.
    odd      \* Whether the number of rounds so far is odd.

Waits(slot) ==
    LET phase == agreed.table[slot].phase
    IN  CASE phase = "free" -> FALSE
          [] phase \in {"bootstrapping", "retracted", "transferring"} -> TRUE
          [] OTHER -> fabric[slot].grant \in {"queued", "cancelling", "revoking"}

(* Whether a round brings what a slot waits for: news of its handshake, its transfer, its publication or its fence. *)
Brings(round, slot) ==
    LET phase == agreed.table[slot].phase
        grant == fabric[slot].grant
        polled == \/ phase \in {"bootstrapping", "retracted"} /\ round.polls[slot] # "bootstrapping"
                  \/ phase = "transferring" /\ round.polls[slot] # "transferring"
        moved == round.fabric[slot].grant # grant
    IN  /\ phase # "free"
        /\ CASE grant = "queued" -> moved \/ polled
             [] grant \in {"cancelling", "revoking"} -> moved
             [] OTHER -> polled

LiveInit == Init /\ served = {} /\ odd = FALSE

Served(round) ==
    { slot \in Slots : Brings(round, slot) }
        \cup (IF round.count.retired > 0 THEN {0} ELSE {})
        \cup (IF round.copied > 0 THEN {-1} ELSE {})

LiveNext == SomeRound(agreed, fabric, LAMBDA round : Step(round) /\ served' = Served(round) /\ odd' = ~odd)

Fairness ==
    /\ []<>odd /\ []<>~odd  \* Rounds go on.
    /\ []<>(agreed.flights = <<>> \/ 0 \in served)
    /\ []<>(agreed.copies = <<>> \/ -1 \in served)
    /\ \A slot \in Slots : []<>(~Waits(slot) \/ slot \in served)

LiveSpec == LiveInit /\ [][LiveNext]_<<vars, served, odd>> /\ Fairness

(* No request waits for ever while later ones run: each slot is free again and again.                               *)
AdmissionFair == \A slot \in Slots : []<>(slot \notin Used)

==============================================================================
