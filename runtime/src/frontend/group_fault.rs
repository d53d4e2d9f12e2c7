//! What a rank may say or do that ends its group, and the epoch with it.

use thiserror::Error;

use super::journal::JournalFault;
use crate::wire::RankName;

/// A rank's words that end its group.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GroupFault {
    /// It said itself that it ends.
    #[error("{rank} ends: {text}{}{}", missing_text(*.missing_rank), ticket_text(.last_ticket.as_deref()))]
    Fatal {
        /// Who said it.
        rank: RankName,
        /// What went wrong.
        text: String,
        /// The rank that did not come.
        missing_rank: Option<u32>,
        /// The last ticket it entered.
        last_ticket: Option<String>,
    },
    /// It broke the order of a request.
    #[error("{rank} broke the protocol: {source}")]
    Journal {
        /// Who broke it.
        rank: RankName,
        /// How.
        source: JournalFault,
    },
    /// It said what only the decode leader may, or said hello twice.
    #[error("{rank} sent a message that is not its to send: {message}")]
    OutOfPlace {
        /// Who sent it.
        rank: RankName,
        /// The message's name.
        message: &'static str,
    },
    /// It sent a token that the vocabulary does not have.
    #[error("{rank} sent token {token}, but the vocabulary has {vocabulary}")]
    Vocabulary {
        /// Who sent it.
        rank: RankName,
        /// The token.
        token: u32,
        /// The size of the vocabulary.
        vocabulary: u32,
    },
}

fn missing_text(rank: Option<u32>) -> String {
    rank.map(|rank| format!("; missing: rank {rank}")).unwrap_or_default()
}

fn ticket_text(ticket: Option<&str>) -> String {
    ticket.map(|ticket| format!("; last ticket: {ticket}")).unwrap_or_default()
}
