//! The batch of one forward pass: rows as the scheduler gives them, checked, laid out position by position.
//!
//! All checks happen here, before the first collective. They read only the batch, the configuration and the cache's
//! shape, which are alike on every rank, so a batch is refused by all ranks or by none.

use super::all_reduce::CollectiveError;
use super::backend::BackendError;
use super::cache::{CacheShape, Slot};
use super::config::Config;
use super::draw::Draw;

/// One request's part of a batch: one token in decode, many in prefill or a chunk of it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Tokens at positions `start..start + tokens.len()`; at least one.
    pub tokens: &'a [u32],
    /// Position of the first token. The positions before it are in the cache already, or are written by another row
    /// of this batch that shares their pages.
    pub start: usize,
    /// Pages of the row's positions from 0 on: position `p` is in `pages[p / page_size]`.
    pub pages: &'a [u32],
}

/// What one forward is to compute.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step<'a> {
    /// The rows of its batch.
    pub rows: &'a [Row<'a>],
    /// How each row's token is drawn; the likeliest is taken for those beyond its end.
    pub draws: &'a [Option<Draw>],
    /// The row of the forward launched before whose token each row goes on from, in place of its one token. Whatever is beyond the
    /// end goes on from its own.
    pub follows: &'a [Option<usize>],
}

impl Row<'_> {
    /// Positions of the row that are known once this batch has run.
    fn end(&self) -> usize {
        self.start.saturating_add(self.tokens.len())
    }
}

/// Why a forward pass gave no tokens.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// This rank's backend failed; the rank's state is unknown.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A row goes beyond the model's context.
    #[error("row {row} ends at position {end}; the model's context is {context}")]
    BeyondContext {
        /// Index of the row.
        row: usize,
        /// Its positions.
        end: usize,
        /// Positions of the model's context.
        context: usize,
    },
    /// The cache was made for another model or group size.
    #[error(
        "cache of (layers, kv heads, head dim) {found:?}, but this rank's part of the model is {expected:?}"
    )]
    CacheShape {
        /// Shape of this rank's part of the model.
        expected: [usize; 3],
        /// Shape of the cache.
        found: [usize; 3],
    },
    /// A collective failed; the rank's state is unknown and it cannot go on with this group.
    #[error("all-reduce failed: {0}")]
    Collective(#[from] CollectiveError),
    /// A row has no token.
    #[error("row {row} has no token; leave it out of the batch")]
    EmptyRow {
        /// Index of the row.
        row: usize,
    },
    /// A row goes on from what was not chosen, or has more tokens than that one.
    #[error(
        "row {row} of {tokens} tokens goes on from row {follows} of the forward before, which had {rows}; give it one token and a row"
    )]
    Follows {
        /// Index of the row.
        row: usize,
        /// Its tokens.
        tokens: usize,
        /// The row that it goes on from.
        follows: usize,
        /// Rows of the forward before.
        rows: usize,
    },
    /// The model was loaded as another part of a group than it is used in.
    #[error("the weights are rank {} of {}, the group says rank {} of {}", expected[0], expected[1], found[0], found[1])]
    Group {
        /// Rank and size the model was loaded for.
        expected: [usize; 2],
        /// Rank and size of the group.
        found: [usize; 2],
    },
    /// A logit is infinite or not a number.
    #[error(
        "row {row} gives logits that are not finite: it reads a cache position that was never written, or the weights overflow"
    )]
    NotFinite {
        /// Index of the row.
        row: usize,
    },
    /// A row's page is not in the cache.
    #[error("row {row} names page {page}; the cache has pages 0..{pages}")]
    Page {
        /// Index of the row.
        row: usize,
        /// The page.
        page: u32,
        /// Pages of the cache.
        pages: usize,
    },
    /// A row's page list is too short for its positions.
    #[error("row {row} has {found} pages; its {end} positions need {needed}")]
    PagesTooFew {
        /// Index of the row.
        row: usize,
        /// Its positions.
        end: usize,
        /// Pages it needs.
        needed: usize,
        /// Pages it has.
        found: usize,
    },
    /// Two positions of the batch would be written to the same place.
    #[error(
        "page {page} is written twice at offset {offset}; pages may be shared only before each row's start"
    )]
    SlotTwice {
        /// The page.
        page: usize,
        /// Position within the page.
        offset: usize,
    },
    /// A token is not in the vocabulary.
    #[error("row {row} has token {token}; the vocabulary is 0..{vocabulary}")]
    Token {
        /// Index of the row.
        row: usize,
        /// The token.
        token: u32,
        /// Number of tokens.
        vocabulary: usize,
    },
}

/// One position of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its token.
    pub token: usize,
    /// Index of its row.
    pub row: usize,
    /// Its position in the row.
    pub position: usize,
    /// Where its keys and values go.
    pub slot: Slot,
    /// Whether the row ends here, so that it gives logits.
    pub last: bool,
}

/// The rows of one forward pass, checked.
#[derive(Debug)]
pub struct Batch<'rows> {
    /// The rows.
    pub rows: &'rows [Row<'rows>],
    /// Their positions, row after row.
    pub places: Vec<Place>,
    /// Shape of the cache that they are in.
    pub shape: CacheShape,
    /// This rank's query heads.
    pub heads: usize,
    draws: &'rows [Option<Draw>],
    follows: &'rows [Option<usize>],
}

impl<'rows> Batch<'rows> {
    /// Checks rows against the model, the cache, and the rows of the forward before.
    pub(super) fn new(
        Step { rows, draws, follows }: Step<'rows>,
        config: &Config,
        (shape, heads): (CacheShape, usize),
        rows_before: usize,
    ) -> Result<Self, ForwardError> {
        for (index, row) in rows.iter().enumerate() {
            check_extent(index, row, config, shape.page_size)?;
            check_content(index, row, config, shape.pages)?;
        }
        for (row, follows) in follows.iter().enumerate().filter_map(|(row, follows)| Some((row, (*follows)?)))
        {
            let tokens = rows.get(row).map_or(0, |row| row.tokens.len());
            if tokens != 1 || follows >= rows_before {
                return Err(ForwardError::Follows { row, tokens, follows, rows: rows_before });
            }
        }
        let of_row = |(index, row)| row_places(index, row, shape.page_size);
        let places: Vec<_> = rows.iter().enumerate().flat_map(of_row).collect();
        check_slots(&places)?;
        Ok(Self { rows, places, shape, heads, draws, follows })
    }

    /// By position: the row of the forward before whose token it has. `None` if each has its own.
    pub(super) fn follows(&self) -> Option<Vec<Option<usize>>> {
        let of_place = |place: &Place| self.follows.get(place.row).copied().flatten();
        let any = self.follows.iter().any(Option::is_some);
        any.then(|| self.places.iter().map(of_place).collect())
    }

    /// How each row's token is drawn; `None` for the likeliest.
    pub(super) fn draws(&self) -> impl Iterator<Item = Option<Draw>> {
        self.draws.iter().copied().chain(std::iter::repeat(None)).take(self.rows.len())
    }

    /// Pages that hold the positions of a place's row up to it, in order, each with the number of positions in use.
    pub(super) fn history(&self, place: &Place) -> impl Iterator<Item = (usize, usize)> {
        let (end, page_size) = (place.position + 1, self.shape.page_size);
        (0..end)
            .step_by(page_size)
            .zip(self.rows[place.row].pages)
            .map(move |(first, page)| (index(*page), page_size.min(end - first)))
    }
}

fn check_slots(places: &[Place]) -> Result<(), ForwardError> {
    let mut slots: Vec<_> = places.iter().map(|place| (place.slot.page, place.slot.offset)).collect();
    slots.sort_unstable();
    match slots.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(&[(page, offset), ..]) => Err(ForwardError::SlotTwice { page, offset }),
        Some([]) | None => Ok(()),
    }
}

fn row_places(row: usize, content: &Row<'_>, page_size: usize) -> impl Iterator<Item = Place> {
    let Row { tokens, start, pages } = *content;
    tokens.iter().zip(start..).map(move |(&token, position)| Place {
        token: index(token),
        row,
        position,
        slot: Slot { page: index(pages[position / page_size]), offset: position % page_size },
        last: position + 1 == start + tokens.len(),
    })
}

fn check_extent(index: usize, row: &Row<'_>, config: &Config, page_size: usize) -> Result<(), ForwardError> {
    let (end, context) = (row.end(), config.context);
    let (needed, found) = (end.div_ceil(page_size), row.pages.len());
    if row.tokens.is_empty() {
        return Err(ForwardError::EmptyRow { row: index });
    }
    if end > context {
        return Err(ForwardError::BeyondContext { row: index, end, context });
    }
    if found < needed {
        return Err(ForwardError::PagesTooFew { row: index, end, needed, found });
    }
    Ok(())
}

fn check_content(row: usize, content: &Row<'_>, config: &Config, pages: usize) -> Result<(), ForwardError> {
    let vocabulary = config.vocabulary;
    if let Some(&token) = content.tokens.iter().find(|&&token| index(token) >= vocabulary) {
        return Err(ForwardError::Token { row, token, vocabulary });
    }
    match content.pages.iter().find(|&&page| index(page) >= pages) {
        Some(&page) => Err(ForwardError::Page { row, page, pages }),
        None => Ok(()),
    }
}

/// A token or page as an index; one that no `usize` holds is out of every range.
fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
