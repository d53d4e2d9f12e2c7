//! How a role's facts come in: the input by which the loop learns each, and what an input says.

use crate::fabric::PrefillInbound;
use crate::rank::decode;
use crate::rank::error::RankError;
use crate::rank::hands::FactOf;
use crate::rank::inputs::Input;
use crate::wire::{Draw, FrontToRank, Sampling};
use lockstep_spec::decode::Decode;
use lockstep_spec::ids::RequestId;
use lockstep_spec::machine::Fact;
use lockstep_spec::prefill::Prefill;
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::leg::PrefillLeg;
use lockstep_spec::role::Role;

/// How a role's facts come in.
pub(super) trait Rehearsed: Role {
    /// The input that brings an arrival.
    fn arrives(arrival: Self::Arrival) -> Input;

    /// The input that brings a fact of this role.
    fn seen(fact: Self::Fact) -> Input;

    /// What an input says beside what it says to every role's machine.
    fn fact(input: &Input) -> Option<FactOf<Self>>;
}

impl Rehearsed for Decode {
    fn arrives(request: Self::Arrival) -> Input {
        Input::Front(FrontToRank::Submit(request))
    }

    fn seen((leg, fact): Self::Fact) -> Input {
        Input::Leg(leg, fact)
    }

    fn fact(input: &Input) -> Option<FactOf<Self>> {
        decode::fact(input)
    }
}

/// A leg's parts are joined by its hands, so that its list stands for all of them here.
impl Rehearsed for Prefill {
    fn arrives(PrefillLeg { id, leg, tokens, keys }: Self::Arrival) -> Input {
        let draw = Draw { sampling: Sampling::GREEDY, index: 0 };
        let tokens = vec![0; tokens as usize];
        Input::Front(FrontToRank::Leg { leg, acceptance: id.0, tokens, keys, draw })
    }

    fn seen((leg, fact): Self::Fact) -> Input {
        match fact {
            WriteFact::Listed => Input::Prefill(PrefillInbound::List { leg, pages: Vec::new() }),
            WriteFact::Revoked => Input::Prefill(PrefillInbound::Revoked { leg }),
            WriteFact::Written => Input::Prefill(PrefillInbound::Written { leg }),
            WriteFact::WriteFailed => Input::WriteFailed(leg),
        }
    }

    fn fact(input: &Input) -> Option<FactOf<Self>> {
        match input {
            Input::Front(FrontToRank::Leg { leg, acceptance, tokens, keys, .. }) => {
                let (id, tokens) = (RequestId(*acceptance), u32::try_from(tokens.len()).ok()?);
                Some(Fact::Submitted(PrefillLeg { id, leg: *leg, tokens, keys: keys.clone() }))
            }
            Input::Prefill(PrefillInbound::List { leg, .. }) => Some(Fact::Role((*leg, WriteFact::Listed))),
            Input::Prefill(PrefillInbound::Revoked { leg }) => Some(Fact::Role((*leg, WriteFact::Revoked))),
            Input::Prefill(PrefillInbound::Written { leg }) => Some(Fact::Role((*leg, WriteFact::Written))),
            Input::WriteFailed(leg) => Some(Fact::Role((*leg, WriteFact::WriteFailed))),
            Input::Prefill(PrefillInbound::PeerGone { .. } | PrefillInbound::Rejected { .. })
            | Input::Front(FrontToRank::Abort { .. } | FrontToRank::Attach { .. } | FrontToRank::Dismiss)
            | Input::Front(FrontToRank::Submit(_))
            | Input::Front(FrontToRank::Pause | FrontToRank::Resume | FrontToRank::Shutdown)
            | Input::FrontGone(_)
            | Input::Leg(..)
            | Input::Retired { .. }
            | Input::Copied(_)
            | Input::Voted { .. }
            | Input::DeviceFailed(_) => None,
        }
    }
}

/// The input that brings a fact; a tick is none.
pub(super) fn input<R: Rehearsed>(fact: FactOf<R>) -> Option<Input> {
    match fact {
        Fact::Retired { forward, tokens } => {
            Some(Input::Retired { forward, tokens, micros: 0, gap_micros: 0 })
        }
        Fact::Copied(copy) => Some(Input::Copied(copy)),
        Fact::Submitted(arrival) => Some(R::arrives(arrival)),
        Fact::AbortWanted(request) => Some(Input::Front(FrontToRank::Abort { request: request.0 })),
        Fact::PauseWanted(true) => Some(Input::Front(FrontToRank::Pause)),
        Fact::PauseWanted(false) => Some(Input::Front(FrontToRank::Resume)),
        Fact::ShutdownWanted => Some(Input::Front(FrontToRank::Shutdown)),
        Fact::Broken => Some(Input::DeviceFailed(RankError::ThreadGone("device thread"))),
        Fact::Tick => None,
        Fact::Role(fact) => Some(R::seen(fact)),
    }
}
