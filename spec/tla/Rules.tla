-------------------------------- MODULE Rules --------------------------------
(* The sizes of a decode group, and the rules that its decisions follow, apart from the mechanics.                  *)
(*                                                                                                                  *)
(* Each rule can be broken by name: `variant` is "shipped", or the one rule that a run breaks to show that it       *)
(* matters. It is a variable, so that one run can explore several variants side by side; nothing ever changes it.   *)

EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    SlotCount,    \* Requests that the group holds at once.
    PageCount,    \* KV pages of the pool.
    PageSize,     \* Positions that one page holds.
    HostCount,    \* Pages on each rank's host, for requests that give theirs up.
    FlightLimit,  \* Forwards that may be in flight: 1 in the normal loop, 2 under overlap.
    Kinds,        \* Kinds of request that keep arriving: a sequence of [prompt, most, stopAt].
    Aborts,       \* Whether a client may give any live request up at any time.
    Breakage,     \* What may break: "nothing", "handshake", "transfer" or "deadline".
    Variants      \* The variants to explore.

VARIABLE variant

Slots == 1..SlotCount
Pages == 1..PageCount
Hosts == 1..HostCount

PagesFor(positions) == (positions + PageSize - 1) \div PageSize
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b

(* Kinds of request. `stopAt` is the index of the output's token that ends it early; Never is beyond any output.    *)
Never     == 99
LongShort == << [prompt |-> 1, most |-> 4, stopAt |-> Never], [prompt |-> 1, most |-> 2, stopAt |-> Never] >>
Stopping  == << [prompt |-> 1, most |-> 3, stopAt |-> 1], [prompt |-> 1, most |-> 2, stopAt |-> Never] >>
Growing   == << [prompt |-> 1, most |-> 3, stopAt |-> Never] >>
Short     == << [prompt |-> 1, most |-> 2, stopAt |-> Never] >>

(* ---- Variants ---------------------------------------------------------------------------------------------- *)

FromCopy == {"from-copy", "from-copy-fewest-tokens-victim", "from-copy-retracts-alone", "from-copy-grows-last"}
FewestTokens == {"fewest-tokens-victim", "from-copy-fewest-tokens-victim"}
NoFirstPage == {"from-copy-retracts-alone", "from-copy-grows-last"}
WithHosts == {"releases-under-copies", "runs-before-restored", "stores-without-flights", "restores-without-first-launch"}

AllVariants == FromCopy \cup FewestTokens \cup NoFirstPage \cup WithHosts \cup
    { "shipped", "releases-in-flight", "loses-pages", "never-releases", "retires-before-recording",
      "drained-by-fabric", "admits-ahead", "admits-first", "launches-unfenced", "applies-stale",
      "launches-past-its-limit", "plans-one", "starts-again-unshaken", "starts-without-first-launch" }

(* ---- Rules ------------------------------------------------------------------------------------------------- *)

(* Finish before abort before failure; grow before resume before admit: other orders trap or starve a request.      *)
Order ==
    CASE variant = "retires-before-recording" ->
            <<"retire", "copy", "record", "abort", "poll", "release", "grow", "resume", "admit", "compose">>
      [] variant = "from-copy-grows-last" ->
            <<"record", "retire", "copy", "abort", "poll", "release", "resume", "admit", "grow", "compose">>
      [] variant = "admits-first" ->
            <<"record", "retire", "copy", "abort", "poll", "release", "grow", "admit", "resume", "compose">>
      [] OTHER ->
            <<"record", "retire", "copy", "abort", "poll", "release", "grow", "resume", "admit", "compose">>

(* Who gives its pages up: the youngest by acceptance. `running` is not empty and oldest first. Among those with    *)
(* the fewest tokens, the broken rule takes the youngest.                                                           *)
Victim(table, running) ==
    IF variant \in FewestTokens
    THEN LET tokens(i) == table[running[i]].generated
             fewest == { i \in DOMAIN running : \A j \in DOMAIN running : tokens(i) <= tokens(j) }
         IN  running[CHOOSE i \in fewest : \A j \in fewest : j <= i]
    ELSE running[Len(running)]

(* The only running request waits for a page: its own would not help it.                                            *)
MayRetract(running) == Len(running) > (IF variant = "from-copy-retracts-alone" THEN 0 ELSE 1)

(* A retracted request starts anew once its handshake is done on every rank; `reads`: the vote is about this one.   *)
MayStartAgain(reads, poll) == variant = "starts-again-unshaken" \/ (reads /\ poll = "waiting-for-input")

MayResume(growthLacks) == ~growthLacks
MayAdmit(growthLacks, retractedWaits) == ~growthLacks /\ (variant = "admits-ahead" \/ ~retractedWaits)

(* A transfer brings the token that follows what prefill computed; a second one from a copy would bring none.       *)
BringsToken(generated) == variant \in FromCopy => generated = 0

(* Positions that a starting transfer takes pages for: prompt and output so far, and the first launch's.            *)
PositionsToStart(kind, generated) ==
    LET written == kind.prompt + generated
        copied == kind.prompt + Max(generated - 1, 0)
        whole == kind.prompt + kind.most - 1
    IN  CASE variant \in NoFirstPage -> copied
          [] variant \in FromCopy \ NoFirstPage -> copied + 1
          [] variant = "starts-without-first-launch" -> written
          [] OTHER -> Max(Min(written + 1, whole), written)

ReturnsPages == variant # "loses-pages"

(* Positions whose KV goes to the hosts with a victim: what its `flying` forwards in flight write, too.              *)
PositionsToStore(kind, generated, flying) ==
    kind.prompt + Max(generated - 1, 0) + (IF variant = "stores-without-flights" THEN 0 ELSE flying)

(* Positions that a copy which comes back takes pages for: those of the first launch, too.                          *)
PositionsToRestore(kind, generated) ==
    kind.prompt + Max(generated - 1, 0) + (IF variant = "restores-without-first-launch" THEN 0 ELSE 1)

(* Whether a request runs whose pages come from the hosts, given whether one has not come on every rank.            *)
Restored(loading) == variant = "runs-before-restored" \/ ~loading

(* Whether pages may be freed, with `flying` forwards that name them in flight, and copies of them under way if     *)
(* `copying`.                                                                                                       *)
Releasable(flying, drained, copying) ==
    CASE variant = "never-releases" -> FALSE
      [] variant = "releases-in-flight" -> drained /\ ~copying
      [] variant = "releases-under-copies" -> flying = 0 /\ drained
      [] OTHER -> flying = 0 /\ drained /\ ~copying

(* A peer that writes again would write over what the forward writes: so run after the fence.                       *)
MayLaunch(drained) == variant = "launches-unfenced" \/ drained

(* Forwards in flight that count against the tokens that a request still wants.                                     *)
Counted(flying) == IF variant = "launches-past-its-limit" THEN 0 ELSE flying

(* Who may be in a plan, oldest first.                                                                              *)
PlanOrder(slots) == IF variant = "plans-one" /\ slots # <<>> THEN <<Head(slots)>> ELSE slots

(* Whether nothing outstanding touches a slot's pages: false from the decision to publish them on, and not only     *)
(* from the moment at which the fabric has them.                                                                    *)
Drained(grant) ==
    grant \in (IF variant = "drained-by-fabric" THEN {"none", "queued", "cancelling"} ELSE {"none"})

(* Whether an element of the vote is applied to another occupant, attempt or phase than it was sampled for.         *)
AppliesStale == variant = "applies-stale"

==============================================================================
