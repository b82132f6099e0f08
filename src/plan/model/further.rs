//! The models beside the main one: `fallback` and `small`. They are reached in the same way and have facts of their own.

use super::{Reported, assumed_window, escalated_output, unknown_model};
use crate::plan::job::{ModelPlan, Provider};
use crate::plan::models::{ASSUMED_WINDOW, ModelFacts};
use crate::plan::scope::Scope;
use crate::spec::{Code, Diagnostic, Layer, ModelSpec, Thinking, Written, grouped};
use crate::units::{Prices, Tokens};

/// A model beside the main one, and the name as it was written.
pub(super) struct Further {
    pub(super) name: Written<String>,
    pub(super) plan: ModelPlan,
}

/// The model that takes over. It thinks as the main one, where it can.
pub(super) fn fallback(
    scope: &mut Scope<'_>,
    spec: &ModelSpec,
    main: &Written<String>,
    provider: &Provider,
) -> Result<Option<Further>, Reported> {
    let Some(written) = &spec.fallback else { return Ok(None) };
    let name = scope.fill(written).ok_or(Reported)?;
    if name.value == main.value {
        // A main model of a higher layer than the fallback was not meant to fall back to itself.
        if main.layer() > name.layer() {
            return Ok(None);
        }
        let report = Diagnostic::error(Code::Conflict, "`fallback` is the main model itself")
            .at(name.place, "would take over from itself")
            .help("name another model, or leave `fallback` out");
        let report = match main.layer() {
            Layer::BuiltIn => report.note("it is the default of `name`"),
            Layer::Settings | Layer::Job | Layer::Flag => report.also(main.place.clone(), "the main model"),
        };
        scope.report(report);
        return Err(Reported);
    }
    let thinking = |facts: &ModelFacts, max_output| {
        let fits = |thinking: &Thinking| match thinking {
            Thinking::Budget(budget) => *budget < max_output,
            Thinking::Off | Thinking::Adaptive => true,
        };
        let thinking = spec.thinking.as_ref()?.value;
        Some(thinking).filter(|thinking| facts.accepts(*thinking)).filter(fits)
    };
    further(scope, spec, name, provider, thinking).map(Some)
}

/// The model for summaries: it does not think, where that can be asked of it.
pub(super) fn small(scope: &mut Scope<'_>, spec: &ModelSpec, provider: &Provider) -> Result<Option<Further>, Reported> {
    let Some(written) = &spec.small else { return Ok(None) };
    let name = scope.fill(written).ok_or(Reported)?;
    let thinking = |facts: &ModelFacts, _| Some(Thinking::Off).filter(|off| facts.accepts(*off));
    further(scope, spec, name, provider, thinking).map(Some)
}

/// `thinking` is asked only where the model is known: a form that a model may refuse is not sent for it.
fn further(
    scope: &mut Scope<'_>,
    spec: &ModelSpec,
    name: Written<String>,
    provider: &Provider,
    thinking: impl Fn(&ModelFacts, Tokens) -> Option<Thinking>,
) -> Result<Further, Reported> {
    let facts = ModelFacts::of(&name.value);
    let replayed = matches!(provider, Provider::Replay { .. });
    if facts.is_none() && !replayed {
        scope.report(assumed_window(unknown_model(&name)));
    }
    let context_window = facts.map_or(ASSUMED_WINDOW, |facts| facts.context_window);
    // What was written is for the main model; here it is a cap like any other.
    let written = spec.max_output_tokens.as_ref().ok_or(Reported)?;
    let max_output = facts.map_or(written.value, |facts| written.value.min(facts.max_output));
    if max_output >= context_window {
        scope.report(
            Diagnostic::error(Code::OutOfRange, "an answer would fill the whole context window")
                .at(
                    written.place.clone(),
                    format!("the context window of {:?} is {}", name.value, grouped(context_window.0)),
                )
                .also(name.place, "of this model"),
        );
        return Err(Reported);
    }
    let plan = ModelPlan {
        provider: provider.clone(),
        name: name.value.clone(),
        max_output,
        escalated_output: escalated_output(spec, facts, max_output),
        thinking: facts.and_then(|facts| thinking(facts, max_output)),
        context_window,
        prices: if replayed { Some(Prices::default()) } else { facts.map(|facts| facts.prices.clone()) },
        binds_thinking: !replayed && facts.is_some_and(|facts| facts.binds_thinking),
        fallback: None,
        small: None,
    };
    Ok(Further { name, plan })
}
