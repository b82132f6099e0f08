//! Which answer a call gets.

use super::answer::Answer;
use super::http::Request;
use std::collections::BTreeMap;
use std::fmt;

/// The answers of a server: the first lane that takes a request answers it.
#[derive(Debug, Default)]
pub(crate) struct Script {
    lanes: Vec<Lane>,
    pub(super) key: Option<String>,
    pub(super) rewrites: bool,
}

/// Answers for some of the requests.
struct Lane {
    /// Text that the first user message holds; empty for all.
    about: String,
    /// The model that is asked; empty for all.
    model: String,
    answers: Answers,
    /// How many calls were answered, by conversation.
    taken: BTreeMap<String, usize>,
}

enum Answers {
    /// One after the other over all calls of the lane.
    Shared(Vec<Answer>),
    /// One after the other in each conversation (told apart by the first user message).
    Each(Vec<Answer>),
    /// Whatever the closure says.
    Made(Box<dyn FnMut(&Request) -> Answer + Send>),
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("about", &self.about).field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Script {
    /// The answers in the order of the calls; the last one again when there are no more.
    pub(crate) fn calls(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::default().lane("", Answers::Shared(answers.into_iter().collect()))
    }

    /// The same answers, in order, for each conversation.
    pub(crate) fn each(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::default().lane("", Answers::Each(answers.into_iter().collect()))
    }

    /// Whatever the closure makes of a request.
    pub(crate) fn made(answer: impl FnMut(&Request) -> Answer + Send + 'static) -> Self {
        Self::default().lane("", Answers::Made(Box::new(answer)))
    }

    /// The answers, in order, for each conversation whose first user message holds this text. Ask for such lanes before
    /// the one that takes all: `Script::default().about("a", […]).about("b", […])`.
    pub(crate) fn about(self, text: &str, answers: impl IntoIterator<Item = Answer>) -> Self {
        self.lane(text, Answers::Each(answers.into_iter().collect()))
    }

    /// The answers, in order, for each conversation with this model. Ask for such lanes before the one that takes all.
    pub(crate) fn model(mut self, model: &str, answers: impl IntoIterator<Item = Answer>) -> Self {
        self = self.lane("", Answers::Each(answers.into_iter().collect()));
        if let Some(lane) = self.lanes.last_mut() {
            model.clone_into(&mut lane.model);
        }
        self
    }

    /// Lets messages be replaced by others, as a compaction does.
    pub(crate) fn rewrites(mut self) -> Self {
        self.rewrites = true;
        self
    }

    /// Refuses, as the API does, every request without this key.
    pub(crate) fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    fn lane(mut self, about: &str, answers: Answers) -> Self {
        self.lanes.push(Lane { about: about.to_owned(), model: String::new(), answers, taken: BTreeMap::new() });
        self
    }

    pub(super) fn answer(&mut self, request: &Request) -> Option<Answer> {
        let first = request.first_text();
        let is_for =
            |lane: &&mut Lane| first.contains(&lane.about) && (lane.model.is_empty() || lane.model == request.model());
        let lane = self.lanes.iter_mut().find(is_for)?;
        let (conversation, answers) = match &mut lane.answers {
            Answers::Made(make) => return Some(make(request)),
            Answers::Shared(answers) => (String::new(), answers),
            Answers::Each(answers) => (first, answers),
        };
        let taken = lane.taken.entry(conversation).or_default();
        let answer = answers.get(*taken).or_else(|| answers.last()).cloned();
        *taken += 1;
        answer
    }
}
