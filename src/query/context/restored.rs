//! [`Shown`]: a view in a few numbers, from which it can be made again over the same conversation.

use super::View;
use super::collapse::Span;
use super::view::Marks;
use crate::query::Usable;
use crate::query::transcript::History;
use crate::units::Tokens;
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

/// What the model is shown of a conversation. All places are those of messages in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Messages between the first and this one are left out.
    pub snipped: usize,
    /// Results before it are stubs.
    pub cleared: usize,
    /// Thinking before it is left out.
    pub thinking: usize,
    /// Images before it are left out.
    pub media: usize,
    /// Spans with digests: first message, the one after the last, whether the digest is shown.
    pub spans: Vec<(usize, usize, bool)>,
    /// What the provider said of the size.
    pub known: Option<Tokens>,
    /// Bytes that came since then.
    pub fresh: usize,
    /// Tokens and bytes of the last answer's whole conversation.
    pub density: Option<(Tokens, usize)>,
}

impl Shown {
    /// Whether it can be about so many messages.
    ///
    /// # Errors
    /// Says what is out of place.
    pub fn check(&self, messages: usize) -> Result<(), String> {
        let marks = [self.snipped, self.cleared, self.thinking, self.media];
        if marks.iter().any(|mark| *mark > messages) {
            return Err(format!("its marks {marks:?} lie outside of {messages} messages"));
        }
        let mut last = 1;
        for (from, to, _) in &self.spans {
            if *from < last || from >= to || *to > messages {
                return Err(format!(
                    "its spans {:?} are not within {messages} messages, one after the other",
                    self.spans
                ));
            }
            last = *to;
        }
        Ok(())
    }
}

impl View {
    /// It in a few numbers.
    pub(in crate::query) fn described(&self) -> Shown {
        let Marks { snipped, cleared, thinking, media } = self.marks;
        let spans = self.spans.iter().map(|span| (span.range().start, span.range().end, span.applied)).collect();
        let (known, fresh, density) = (self.known, self.fresh, self.density);
        Shown { snipped, cleared, thinking, media, spans, known, fresh, density }
    }

    /// The view that was described so. Summaries by the small model are not kept: digests are made without them.
    pub(in crate::query) fn restored(
        stored: &History,
        shown: &Shown,
        tools: &Usable,
        mut next_id: impl FnMut() -> u64,
    ) -> Self {
        let mut view = stored.iter().fold(Self::default(), |view, message| view.with(message));
        let Shown { snipped, cleared, thinking, media, spans, known, fresh, density } = shown;
        view.marks = Marks { snipped: *snipped, cleared: *cleared, thinking: *thinking, media: *media };
        let span = |(from, to, applied): &(usize, usize, bool)| {
            Span::over(stored, *from..*to, *applied, tools, &OrdMap::new(), &mut next_id)
        };
        view.spans = spans.iter().map(span).collect();
        let mut view = view.rebuilt(stored, tools, next_id);
        (view.known, view.fresh, view.density) = (*known, *fresh, *density);
        view
    }
}
