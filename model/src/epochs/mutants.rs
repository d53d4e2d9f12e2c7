//! The shipped conduct, each rule of it broken once.

use crate::epochs::front_end::Conduct;
use lockstep_spec::decode::request::Request;
use lockstep_spec::ids::Epoch;
use lockstep_spec::journal::Account;

macro_rules! mutant {
    ($(#[$doc:meta])* $name:ident { $($body:item)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name;

        impl Conduct for $name {
            $($body)*
        }
    };
}

mutant!(
    /// What an old group said is taken as if the current one had said it.
    TakesOldWords {
        fn heard_as(_: Epoch, current: Epoch) -> Epoch {
            current
        }
    }
);

mutant!(
    /// The journal is read for the next group, and the epoch is raised when that group forms.
    ReadsBeforeRaising {
        fn raises_before_reading() -> bool {
            false
        }
    }
);

mutant!(
    /// The end of an output is a record of its own behind the last token.
    EndsApart {
        fn ends_with_token() -> bool {
            false
        }
    }
);

mutant!(
    /// A request is submitted as it was accepted, whatever was sent of its output.
    ResubmitsFromStart {
        fn resubmission(account: &Account) -> Option<Request> {
            Some(account.request)
        }
    }
);

mutant!(
    /// Only requests whose stream has begun are submitted again.
    ForgetsUnbegun {
        fn resubmission(account: &Account) -> Option<Request> {
            Some(account.submission()).filter(|_| !account.tokens.is_empty())
        }
    }
);

mutant!(
    /// The tokens of a leg are looked up whichever group wants it.
    AnswersOldLegs {
        fn fences_legs() -> bool {
            false
        }
    }
);

mutant!(
    /// The group is dismissed while its words still count.
    DismissesBeforeRaising {
        fn raises_before_dismissing() -> bool {
            false
        }
    }
);

mutant!(
    /// Streams are closed when no epoch follows, while the group's words still count.
    ClosesUnraised {
        fn raises_before_closing() -> bool {
            false
        }
    }
);
