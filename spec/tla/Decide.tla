------------------------------- MODULE Decide --------------------------------
(* The decision: a pure function of the agreed state, the reduced vote and the leader's brief, the same on every    *)
(* rank. `d` is a decision in the making: the agreed state and the fabric, which each kind of work changes in turn, *)
(* and what lives for one decision only.                                                                            *)
(*                                                                                                                  *)
(*   d.table     by slot: Free, or [phase, kind, pages, copy, generated, outcome]; copy: its pages on the hosts     *)
(*   d.ages      used slots, oldest request first: acceptance order without numbers that grow                       *)
(*   d.free      the free pages                        d.hosts    the hosts' free pages                             *)
(*   d.copies    copies that not every rank is known to have made, oldest first: [way, page, host]                  *)
(*   d.flights   forwards in flight, oldest first: each a sequence of rows [slot, position, pages]                  *)
(*   d.verdicts  for the first of these, whether each row's token ends its output: briefed ahead of retirement      *)
(*   d.fabric    by slot: what may still be written remotely, [grant, pages, whole]                                 *)
(*   d.lacking   pages that running requests lack          d.stopped  whether the first misfit was met              *)
(*   d.waits     whether any is left to resume                                                                      *)
(*   d.sampled   phases that the vote was sampled in       d.renewed  slots with an occupant or attempt since       *)
(*   d.fault     the broken contract that every rank finds at once, if any                                          *)

EXTENDS Rules

Free == [phase |-> "free"]

Failures == {"transfer-failed", "corrupt", "wrong-leg", "handshake-failed", "deadline-passed"}

(* ---- Reading ----------------------------------------------------------------------------------------------- *)

ByAge(d, phases) == SelectSeq(d.ages, LAMBDA slot : d.table[slot].phase \in phases)

Running == {"ready", "running"}
GivingUp == {"retracting", "draining"}

Flying(d, slot) ==
    Cardinality({ i \in DOMAIN d.flights : \E row \in DOMAIN d.flights[i] : d.flights[i][row].slot = slot })

KindOf(tenant) == Kinds[tenant.kind]
NextPosition(tenant, flying) == KindOf(tenant).prompt + Max(tenant.generated - 1, 0) + flying
WantsLaunch(tenant, flying) == tenant.generated + Counted(flying) < KindOf(tenant).most

(* Whether a copy under way reads or writes one of these pages; whether one of them has yet to come back.           *)
Range(list) == { list[i] : i \in DOMAIN list }
Copying(d, pages) == \E i \in DOMAIN d.copies : d.copies[i].page \in Range(pages)
Loading(d, pages) == \E i \in DOMAIN d.copies : d.copies[i].way = "load" /\ d.copies[i].page \in Range(pages)

(* Folds `Op` over slots, first to last.                                                                            *)
Each(Op(_, _), d, slots) ==
    LET after[i \in 0..Len(slots)] == IF i = 0 THEN d ELSE Op(after[i - 1], slots[i])
    IN  after[Len(slots)]

(* ---- Changing ---------------------------------------------------------------------------------------------- *)

(* Of several faults the first counts.                                                                              *)
Blame(d, fault) == IF d.fault = "none" THEN [d EXCEPT !.fault = fault] ELSE d

SetPhase(d, slot, phase) == [d EXCEPT !.table[slot].phase = phase]

(* A new handshake, of a new occupant or of a new attempt: what was received before is nobody's.                    *)
Handshake(d, slot) == [d EXCEPT !.renewed = @ \cup {slot}, !.fabric[slot].whole = FALSE]

EndAttempt(d, slot) ==
    [d EXCEPT !.fabric[slot].grant = CASE @ = "queued" -> "cancelling" [] @ = "published" -> "revoking" [] OTHER -> @]

(* Ends a request: its attempt is over, and its pages wait until nothing can touch them.                            *)
End(d, slot, outcome) ==
    EndAttempt([d EXCEPT !.table[slot].phase = "draining", !.table[slot].outcome = outcome], slot)

(* Accepts a token of a slot's request, unless that has left or ended meanwhile.                                    *)
Accept(d, slot, stops) ==
    IF d.table[slot].phase \in {"free", "draining"} THEN d
    ELSE LET next == [d EXCEPT !.table[slot].generated = @ + 1]
             tenant == next.table[slot]
         IN  CASE stops -> End(next, slot, "stop")
               [] ~stops /\ tenant.generated >= KindOf(tenant).most -> End(next, slot, "length")
               [] OTHER -> next

(* The lowest pages go first, so that every rank takes the same ones.                                               *)
Lowest(pages, count) ==
    [i \in 1..count |-> CHOOSE page \in pages : Cardinality({ other \in pages : other < page }) = i - 1]

Fits(d, count) == count <= Cardinality(d.free)

Take(d, slot, count) ==
    LET taken == Lowest(d.free, count)
    IN  [d EXCEPT !.free = @ \ Range(taken), !.table[slot].pages = @ \o taken]

(* Copies page by page, as far as there are both.                                                                   *)
Copies(way, pages, hosts) ==
    [i \in 1..Min(Len(pages), Len(hosts)) |-> [way |-> way, page |-> pages[i], host |-> hosts[i]]]

(* ---- The order of work, one operator each ------------------------------------------------------------------ *)

(* A new request takes the lowest free slot; verdicts wait for their forwards.                                      *)
Record(d, brief) ==
    LET open == { slot \in Slots : d.table[slot].phase = "free" }
        lowest == CHOOSE slot \in open : \A other \in open : slot <= other
        tenant == [phase |-> "bootstrapping", kind |-> brief.arrival, pages |-> <<>>, copy |-> <<>>,
                   generated |-> 0, outcome |-> "none"]
        joined == IF brief.arrival = 0 THEN d
                  ELSE Handshake([d EXCEPT !.table[lowest] = tenant, !.ages = Append(@, lowest)], lowest)
        judged == [joined EXCEPT !.verdicts = @ \o brief.verdicts]
        fitting == /\ Len(judged.verdicts) <= Len(judged.flights)
                   /\ \A i \in DOMAIN judged.verdicts : Len(judged.verdicts[i]) = Len(judged.flights[i])
    IN  IF fitting THEN judged ELSE Blame(judged, "no-fault")

(* Tokens of forwards that every rank has retired are accepted, `count` forwards of them.                           *)
RECURSIVE Retire(_, _)
Retire(d, count) ==
    IF count = 0 THEN d
    ELSE IF d.flights = <<>> \/ d.verdicts = <<>> THEN Blame(d, "no-fault")
    ELSE LET rows == Head(d.flights)
             stops == Head(d.verdicts)
             rest == [d EXCEPT !.flights = Tail(@), !.verdicts = Tail(@)]
             indices == [i \in DOMAIN rows |-> i]
             accepted == Each(LAMBDA e, i : Accept(e, rows[i].slot, stops[i]), rest, indices)
         IN  Retire(accepted, count - 1)

(* The oldest `count` copies are made on every rank: whoever's pages have all come back may run.                    *)
Copy(d, count) ==
    LET made == [d EXCEPT !.copies = SubSeq(@, count + 1, Len(@))]
        one(e, slot) == IF Restored(Loading(e, e.table[slot].pages)) THEN SetPhase(e, slot, "ready") ELSE e
    IN  IF count > Len(d.copies) THEN Blame(d, "no-fault") ELSE Each(one, made, ByAge(made, {"restoring"}))

Abort(d, brief) ==
    Each(LAMBDA e, slot : IF e.table[slot].phase = "draining" THEN e ELSE End(e, slot, "aborted"), d, brief.aborts)

(* Whether an element of the vote is read for a slot: only for what it was sampled for.                             *)
Reads(d, slot) == AppliesStale \/ (slot \notin d.renewed /\ d.table[slot].phase = d.sampled[slot])
Read(d, slot) == IF slot \in d.renewed THEN Blame(d, "vote-fresh") ELSE d

(* KV is whole on every rank. The attempt is over: its grant is revoked, on success too.                            *)
Arrive(d, slot) ==
    LET tenant == d.table[slot]
        ready == EndAttempt(SetPhase(d, slot, "ready"), slot)
    IN  IF BringsToken(tenant.generated) THEN Accept(ready, slot, tenant.generated = KindOf(tenant).stopAt) ELSE ready

Advance(d, slot, poll) ==
    LET phase == d.table[slot].phase
    IN  CASE poll \in Failures -> End(d, slot, poll)
          [] poll = "waiting-for-input" /\ phase = "bootstrapping" -> SetPhase(d, slot, "handshaken")
          [] poll = "success" /\ phase = "transferring" -> Arrive(d, slot)
          [] poll \in {"transferring", "success"} /\ phase # "transferring" -> Blame(d, "vote-fresh")
          [] OTHER -> d

(* Agreed polls move requests on.                                                                                   *)
Poll(d, vote) ==
    LET one(e, slot) == IF Reads(e, slot) THEN Advance(Read(e, slot), slot, vote.polls[slot]) ELSE e
    IN  Each(one, d, ByAge(d, {"bootstrapping", "handshaken", "transferring", "retracted"}))

(* Frees what nothing can touch any more. A request that ended leaves; one with a copy on the hosts waits for pages; *)
(* one without starts its next attempt.                                                                             *)
Release(d, vote) ==
    LET one(e, slot) ==
            LET tenant == e.table[slot]
                freed == [e EXCEPT !.free = IF ReturnsPages THEN @ \cup Range(tenant.pages) ELSE @,
                                   !.table[slot].pages = <<>>]
            IN  IF ~Releasable(Flying(e, slot), vote.drained[slot], Copying(e, tenant.pages)) THEN e
                ELSE IF tenant.phase = "draining"
                THEN [freed EXCEPT !.table[slot] = Free, !.fabric[slot].whole = FALSE,
                                   !.hosts = @ \cup Range(tenant.copy),
                                   !.ages = SelectSeq(@, LAMBDA other : other # slot)]
                ELSE IF tenant.copy # <<>> THEN SetPhase(freed, slot, "stored")
                ELSE Handshake(SetPhase(freed, slot, "retracted"), slot)
    IN  Each(one, d, ByAge(d, GivingUp))

(* One running request takes the page of its next launch. Once one lacks a page, no younger one takes any.          *)
GrowOne(d, slot) ==
    LET tenant == d.table[slot]
        flying == Flying(d, slot)
        missing == Max(PagesFor(NextPosition(tenant, flying) + 1) - Len(tenant.pages), 0)
    IN  IF ~WantsLaunch(tenant, flying) \/ missing = 0 THEN d
        ELSE IF d.lacking > 0 \/ ~Fits(d, missing) THEN [d EXCEPT !.lacking = @ + missing]
        ELSE Take(d, slot, missing)

(* Free pages, and those that are being given up.                                                                   *)
Promised(d) ==
    LET giving == Each(LAMBDA sum, slot : sum + Len(d.table[slot].pages), 0, ByAge(d, GivingUp))
    IN  giving + Cardinality(d.free)

(* Copies a victim's KV to the hosts, behind its forwards in flight, if they have room for all of it.               *)
Store(d, slot) ==
    LET tenant == d.table[slot]
        count == PagesFor(PositionsToStore(KindOf(tenant), tenant.generated, Flying(d, slot)))
        hosts == Lowest(d.hosts, count)
    IN  IF count > Cardinality(d.hosts) THEN d
        ELSE [d EXCEPT !.hosts = @ \ Range(hosts), !.table[slot].copy = hosts,
                       !.copies = @ \o Copies("store", tenant.pages, hosts)]

(* Running requests take the page of their next launch, also in rounds that cannot launch. If more lack than are    *)
(* promised, a victim gives its pages up.                                                                           *)
RECURSIVE Grow(_)
Grow(d) ==
    LET grown == Each(GrowOne, [d EXCEPT !.lacking = 0], ByAge(d, Running))
        running == ByAge(grown, Running)
        victim == Victim(grown.table, running)
    IN  IF grown.lacking = 0 \/ Promised(grown) >= grown.lacking \/ ~MayRetract(running) THEN grown
        ELSE Grow(Store(SetPhase(grown, victim, "retracting"), victim))

(* Takes the pages of a transfer and publishes those that it fills. The first misfit stops whoever comes later.     *)
Start(d, slot) ==
    LET tenant == d.table[slot]
        needed == PagesFor(PositionsToStart(KindOf(tenant), tenant.generated))
        filled == PagesFor(KindOf(tenant).prompt + tenant.generated)
        taken == SetPhase(Take(d, slot, needed), slot, "transferring")
        pages == taken.table[slot].pages
        grant == [grant |-> "queued", pages |-> SubSeq(pages, 1, Min(filled, Len(pages))), whole |-> FALSE]
        held == IF d.fabric[slot].grant = "none" THEN taken ELSE Blame(taken, "no-write-after-free")
    IN  IF Fits(d, needed) THEN [held EXCEPT !.fabric[slot] = grant] ELSE [d EXCEPT !.stopped = TRUE]

(* Takes pages for a copy that comes back. The hosts' are free at once: the next copies go behind these.            *)
Restore(d, slot) ==
    LET tenant == d.table[slot]
        needed == PagesFor(PositionsToRestore(KindOf(tenant), tenant.generated))
        taken == SetPhase(Take(d, slot, needed), slot, "restoring")
        loads == Copies("load", taken.table[slot].pages, tenant.copy)
    IN  IF Fits(d, needed)
        THEN [taken EXCEPT !.copies = @ \o loads, !.hosts = @ \cup Range(tenant.copy), !.table[slot].copy = <<>>]
        ELSE [d EXCEPT !.stopped = TRUE]

(* Those that gave their pages up take pages again, oldest first: with a copy on the hosts, or once the new         *)
(* handshake is done on every rank.                                                                                 *)
WaitToResume == {"retracted", "stored"}
Resume(d, vote) ==
    LET one(e, slot) ==
            LET reads == Reads(e, slot)
                read == IF reads THEN Read(e, slot) ELSE e
            IN  IF e.stopped THEN e
                ELSE IF e.table[slot].phase = "stored" THEN Restore(e, slot)
                ELSE IF MayStartAgain(reads, vote.polls[slot]) THEN Start(read, slot) ELSE read
        after == IF MayResume(d.lacking > 0)
                 THEN Each(one, [d EXCEPT !.stopped = FALSE], ByAge(d, WaitToResume)) ELSE d
    IN  [after EXCEPT !.waits = ByAge(after, WaitToResume) # <<>>]

(* New requests whose handshake is done take pages, oldest first.                                                   *)
Admit(d) ==
    LET one(e, slot) == IF e.stopped THEN e ELSE Start(e, slot)
    IN  IF MayAdmit(d.lacking > 0, d.waits)
        THEN Each(one, [d EXCEPT !.stopped = FALSE], ByAge(d, {"handshaken"})) ELSE d

(* The next plan: whoever runs, wants a token, has its fence behind it, and has the page for it.                    *)
Compose(d, vote) ==
    LET position(slot) == NextPosition(d.table[slot], Flying(d, slot))
        fits(slot) ==
            /\ WantsLaunch(d.table[slot], Flying(d, slot))
            /\ MayLaunch(vote.drained[slot])
            /\ PagesFor(position(slot) + 1) <= Len(d.table[slot].pages)
        chosen == SelectSeq(PlanOrder(ByAge(d, Running)), fits)
        row(slot) == [slot |-> slot, position |-> position(slot), pages |-> d.table[slot].pages]
        plan == [i \in DOMAIN chosen |-> row(chosen[i])]
    IN  IF Len(d.flights) >= FlightLimit \/ chosen = <<>> THEN d
        ELSE Each(LAMBDA e, slot : SetPhase(e, slot, "running"), [d EXCEPT !.flights = Append(@, plan)], chosen)

Work(d, work, vote, brief) ==
    CASE work = "record"  -> Record(d, brief)
      [] work = "retire"  -> Retire(d, vote.retired)
      [] work = "copy"    -> Copy(d, vote.copied)
      [] work = "abort"   -> Abort(d, brief)
      [] work = "poll"    -> Poll(d, vote)
      [] work = "release" -> Release(d, vote)
      [] work = "grow"    -> Grow(d)
      [] work = "resume"  -> Resume(d, vote)
      [] work = "admit"   -> Admit(d)
      [] work = "compose" -> Compose(d, vote)

(* The decision on an agreed state, with the fabric as it was when the vote was sampled.                            *)
Decision(agreed, fabric, vote, brief) ==
    LET start == [table |-> agreed.table, ages |-> agreed.ages, free |-> agreed.free,
                  hosts |-> agreed.hosts, copies |-> agreed.copies, flights |-> agreed.flights, verdicts |-> agreed.verdicts, fabric |-> fabric,
                  lacking |-> 0, stopped |-> FALSE, waits |-> FALSE,
                  sampled |-> [slot \in Slots |-> agreed.table[slot].phase], renewed |-> {}, fault |-> "none"]
    IN  Each(LAMBDA d, work : Work(d, work, vote, brief), start, Order)

==============================================================================
