-------------------------------- MODULE Start --------------------------------
(* The start of a group: what each rank has is agreed before the first round.                                       *)
(*                                                                                                                  *)
(*            offers        the least of all       the leader's name       joined? captured?                        *)
(*   probing ----------> offering ----------> naming ----------> preparing ----------> readying ---------> started  *)
(*                           \__________ not all connect __________^                                                *)
(*                                                                                                                  *)
(* A collective has completed once every rank has entered it, and each rank takes what came out in its own time. So *)
(* no variable holds collectives: what is completed follows from where the ranks are. What comes out of a vote is   *)
(* the least of what the ranks brought. Joining the device's communicator is a collective of the devices: nobody    *)
(* waits for it, and a fact tells a rank whether it has joined. That fact comes before or after the completion.     *)
(*                                                                                                                  *)
(* Whatever one rank alone can tell is payload. The variants leave that path, each in one place.                    *)

EXTENDS Naturals

CONSTANTS
    RankCount,  \* Ranks of the group; rank 1 leads.
    MostPages,  \* Pages that are proposed, and the most that a rank offers.
    Variant     \* Which rules are followed.

VARIABLES
    place,   \* By rank: where in its start it is.
    offer,   \* By rank: the pages and the communicator that it offers, once it has looked.
    found,   \* By rank: what came of its preparation, once it is over.
    joining  \* By rank: its part in the devices' collective: "no", "entered" or "taken".

vars == <<place, offer, found, joining>>

Ranks == 1..RankCount
Leader == 1

Unknown == [known |-> FALSE]
Offers == [known : {TRUE}, pages : 1..MostPages, connects : BOOLEAN]
Preparations == [known : {TRUE}, connected : BOOLEAN, captured : BOOLEAN]

Places == {"probing", "offering", "naming", "preparing", "readying", "started"}

Init ==
    /\ place = [rank \in Ranks |-> "probing"]
    /\ offer = [rank \in Ranks |-> Unknown]
    /\ found = [rank \in Ranks |-> Unknown]
    /\ joining = [rank \in Ranks |-> "no"]

(* ---- What is agreed ---------------------------------------------------------------------------------------- *)

(* Every rank is past a place, or in it: the collective that is entered there has completed.                        *)
Completed(from) == \A rank \in Ranks : place[rank] \in from
OffersMade == Completed(Places \ {"probing"})
NameSent == \A rank \in Ranks : place[rank] = "naming" \/ joining[rank] # "no"
AllReady == Completed({"readying", "started"})
AllJoin == \A rank \in Ranks : joining[rank] # "no"

(* The least that any rank offers. A rank takes it after the vote only.                                             *)
LeastPages == CHOOSE pages \in 1..MostPages :
    /\ \A rank \in Ranks : pages <= offer[rank].pages
    /\ \E rank \in Ranks : pages = offer[rank].pages

AllConnect == \A rank \in Ranks : offer[rank].connects
AllConnected == \A rank \in Ranks : found[rank].connected
AllCaptured == \A rank \in Ranks : found[rank].captured

(* What a rank decides; under the shipped rules it is the same for all.                                             *)
PagesOf(rank) == IF Variant = "takes-proposed-pages" THEN MostPages ELSE LeastPages

Connects(rank) ==
    CASE Variant = "connects-unoffered" -> TRUE
      [] Variant = "connects-alone" -> offer[rank].connects
      [] OTHER -> AllConnect

Keeps(rank) == Connects(rank) /\ (Variant = "keeps-unjoined" \/ AllConnected)
GivesUp(rank) == Connects(rank) /\ ~Keeps(rank) /\ Variant # "leaves-joined"
Replays(rank) == Variant = "replays-uncaptured" \/ AllCaptured

(* ---- Steps ------------------------------------------------------------------------------------------------- *)

Goes(rank, to) == place' = [place EXCEPT ![rank] = to]

(* A rank has looked at its device.                                                                                 *)
Look(rank) ==
    /\ place[rank] = "probing" /\ ~offer[rank].known
    /\ \E some \in Offers : offer' = [offer EXCEPT ![rank] = some]
    /\ UNCHANGED <<place, found, joining>>

(* It enters the vote on offers.                                                                                    *)
Propose(rank) ==
    /\ place[rank] = "probing" /\ offer[rank].known
    /\ Goes(rank, "offering")
    /\ UNCHANGED <<offer, found, joining>>

(* It learns the least that all offer. Whether the leader's name follows depends on nothing else.                   *)
TakeOffers(rank) ==
    /\ place[rank] = "offering" /\ OffersMade
    /\ Goes(rank, IF Connects(rank) THEN "naming" ELSE "preparing")
    /\ UNCHANGED <<offer, found, joining>>

(* It has the communicator's name, and its device goes to join.                                                     *)
TakeName(rank) ==
    /\ place[rank] = "naming" /\ NameSent
    /\ Goes(rank, "preparing")
    /\ joining' = [joining EXCEPT ![rank] = "entered"]
    /\ UNCHANGED <<offer, found>>

(* Its preparation ends: by its own deadlines at the latest. It has joined only if all have come.                   *)
Prepare(rank) ==
    /\ place[rank] = "preparing" /\ ~found[rank].known
    /\ \E some \in Preparations :
        /\ some.connected => joining[rank] # "no" /\ AllJoin
        /\ found' = [found EXCEPT ![rank] = some]
    /\ UNCHANGED <<place, offer, joining>>

(* It enters the vote on what all have prepared.                                                                    *)
Report(rank) ==
    /\ place[rank] = "preparing" /\ found[rank].known
    /\ Goes(rank, "readying")
    /\ UNCHANGED <<offer, found, joining>>

TakeReady(rank) ==
    /\ place[rank] = "readying" /\ AllReady
    /\ Goes(rank, "started")
    /\ UNCHANGED <<offer, found, joining>>

(* The devices' collective completes here: nothing follows from that.                                               *)
TakeJoined(rank) ==
    /\ joining[rank] = "entered" /\ AllJoin
    /\ joining' = [joining EXCEPT ![rank] = "taken"]
    /\ UNCHANGED <<place, offer, found>>

Next == \E rank \in Ranks :
    \/ Look(rank) \/ Propose(rank) \/ TakeOffers(rank) \/ TakeName(rank)
    \/ Prepare(rank) \/ Report(rank) \/ TakeReady(rank) \/ TakeJoined(rank)

Spec == Init /\ [][Next]_vars

(* ---- Properties -------------------------------------------------------------------------------------------- *)

TypeOK ==
    /\ place \in [Ranks -> Places]
    /\ offer \in [Ranks -> Offers \cup {Unknown}]
    /\ found \in [Ranks -> Preparations \cup {Unknown}]
    /\ joining \in [Ranks -> {"no", "entered", "taken"}]

(* The leader has a name to send where one is waited for: otherwise the broadcast is not what it was agreed to be.  *)
NoFault == \A rank \in Ranks : place[rank] = "naming" /\ NameSent => offer[Leader].connects

(* Whoever has started has what every rank has, and holds no communicator that is not used.                         *)
StartSound == \A rank \in Ranks : place[rank] = "started" =>
    /\ \A other \in Ranks : PagesOf(rank) <= offer[other].pages
    /\ Keeps(rank) => AllConnected
    /\ Replays(rank) => AllCaptured
    /\ found[rank].connected => Keeps(rank) \/ GivesUp(rank)

(* Two that have started have started with the same.                                                                *)
Product(rank) == <<PagesOf(rank), Keeps(rank), Replays(rank)>>
AgreedEqual == \A left, right \in Ranks :
    place[left] = "started" /\ place[right] = "started" => Product(left) = Product(right)

(* From where nothing happens any more, every rank has started: nobody waits for one that stays away.               *)
NoStuck == ENABLED Next \/ (\A rank \in Ranks : place[rank] = "started" /\ joining[rank] # "entered")

==============================================================================
