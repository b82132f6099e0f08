//! Resolves `[model]`: provider, facts of the table, thinking, further models, and whether money can be counted.

mod further;

use super::endpoint;
use super::job::{ModelPlan, Provider};
use super::models::{ASSUMED_WINDOW, ModelFacts};
use super::scope::{Scope, is_variable};
use crate::spec::{
    Code, Diagnostic, Entry, JobSpec, Layer, ModelSpec, ProviderName, Thinking, Written, grouped, looks_like_key,
};
use crate::units::{Prices, Tokens, Usd};
use std::collections::BTreeMap;

/// The model of a job, and the cap on money that can be enforced with it.
pub(super) fn model(scope: &mut Scope<'_>, job: &JobSpec) -> Option<(ModelPlan, Option<Usd>)> {
    let spec = &job.model;
    let name = spec.name.as_ref().and_then(|name| scope.fill(name));
    let provider = provider(scope, spec);
    let (name, provider) = (name?, provider?);
    let facts = ModelFacts::of(&name.value);
    let replayed = matches!(provider, Provider::Replay { .. });
    let context_window = match (&spec.context_window, facts) {
        (Some(window), _) => window.value,
        (None, Some(facts)) => facts.context_window,
        (None, None) => ASSUMED_WINDOW,
    };
    if facts.is_none() && !replayed {
        let mut report = unknown_model(&name);
        if spec.context_window.is_none() {
            report = assumed_window(report).help("say how large it is: context_window = N in [model]");
        }
        scope.report(report);
    }
    let max_output = max_output(scope, spec, facts.filter(|_| !replayed), context_window)?;
    let thinking = thinking(scope, spec, facts.filter(|_| !replayed), &name.value, max_output);
    let prices = if replayed { Some(Prices::default()) } else { facts.map(|facts| facts.prices.clone()) };
    let mut unpriced: Vec<&Written<String>> = Vec::new();
    if prices.is_none() {
        unpriced.push(&name);
    }
    let fallback = further::fallback(scope, spec, &name, &provider);
    let small = further::small(scope, spec, &provider);
    for model in [&fallback, &small].into_iter().filter_map(|model| model.as_ref().ok()?.as_ref()) {
        if model.plan.prices.is_none() {
            unpriced.push(&model.name);
        }
    }
    let max_cost = max_cost(scope, job, &unpriced, prices.is_some());
    let plan = ModelPlan {
        provider,
        name: name.value,
        max_output,
        escalated_output: escalated_output(spec, facts, max_output),
        thinking: thinking.ok()?,
        context_window,
        prices,
        // A recorded conversation is not checked by a server.
        binds_thinking: !replayed && facts.is_some_and(|facts| facts.binds_thinking),
        fallback: fallback.ok()?.map(|model| Box::new(model.plan)),
        small: small.ok()?.map(|model| Box::new(model.plan)),
    };
    Some((plan, max_cost.ok()?))
}

fn unknown_model(name: &Written<String>) -> Diagnostic {
    Diagnostic::warning(Code::UnknownModel, format!("the model {:?} is not in the built-in table", name.value))
        .at(name.place.clone(), "its price is not known, so its cost is not counted")
}

fn assumed_window(report: Diagnostic) -> Diagnostic {
    report.note(format!("a context window of {} tokens is assumed", grouped(ASSUMED_WINDOW.0)))
}

fn provider(scope: &mut Scope<'_>, spec: &ModelSpec) -> Option<Provider> {
    let provider = spec.provider.as_ref()?;
    match provider.value {
        ProviderName::Replay => {
            let Some(cassette) = &spec.cassette else {
                if !scope.is_broken(&["model.cassette", "model.provider"]) {
                    scope.report(
                        Diagnostic::error(Code::MissingKey, "provider = \"replay\" needs `cassette`")
                            .at(provider.place.clone(), "replays a recorded conversation")
                            .help("for example: cassette = \"fix.cassette.jsonl\""),
                    );
                }
                return None;
            };
            let (path, shown) = scope.path(cassette)?;
            if !scope.world.is_file(&path) {
                scope.not_found("cassette", cassette, &shown);
                return None;
            }
            Some(Provider::Replay { cassette: path })
        }
        ProviderName::Anthropic => {
            // A cassette of a lower layer than the provider was meant for another one.
            let stray = spec.cassette.as_ref().filter(|cassette| cassette.layer() >= provider.layer());
            if let Some(cassette) = stray.filter(|_| !scope.is_broken(&["model.provider"])) {
                scope.report(
                    Diagnostic::error(Code::Conflict, "`cassette` is for recorded models only")
                        .at(cassette.place.clone(), "would never be read")
                        .help("add provider = \"replay\" to [model], or leave `cassette` out"),
                );
            }
            let base_url = base_url(scope, spec.base_url.as_ref()?);
            let api_key_env = api_key_env(scope, spec.api_key_env.as_ref()?);
            let headers = headers(scope, &spec.headers);
            Some(Provider::Anthropic { base_url: base_url?, api_key_env: api_key_env?, headers: headers? })
        }
    }
}

fn base_url(scope: &mut Scope<'_>, written: &Written<String>) -> Option<String> {
    let url = scope.fill(written)?;
    match endpoint::base_url(&url.value) {
        Ok(url) => Some(url),
        Err((code, why)) => {
            scope.report(
                Diagnostic::error(code, "`base_url` is not the address of a server")
                    .at(url.place, why)
                    .help("for example: base_url = \"https://api.anthropic.com\""),
            );
            None
        }
    }
}

fn api_key_env(scope: &mut Scope<'_>, written: &Written<String>) -> Option<String> {
    let name = scope.fill(written)?;
    let (code, message) = if looks_like_key(&name.value) {
        (Code::SecretInFile, "`api_key_env` holds a key")
    } else if is_variable(&name.value) {
        return Some(name.value);
    } else {
        (Code::BadValue, "`api_key_env` is not the name of a variable")
    };
    scope.report(
        Diagnostic::error(code, message)
            .at(name.place, "must be the name of a variable of the environment")
            .help("for example: api_key_env = \"ANTHROPIC_API_KEY\""),
    );
    None
}

/// Headers that carry keys, and headers that the client sets itself.
const KEY_HEADERS: [&str; 5] = ["x-api-key", "authorization", "proxy-authorization", "api-key", "cookie"];
const OWN_HEADERS: [&str; 6] =
    ["content-length", "content-type", "host", "connection", "transfer-encoding", "accept-encoding"];

fn headers(scope: &mut Scope<'_>, written: &BTreeMap<String, Entry>) -> Option<BTreeMap<String, String>> {
    let filled: Vec<_> =
        written.iter().map(|(name, entry)| Some((name.clone(), header(scope, name, entry)?))).collect();
    filled.into_iter().collect()
}

fn header(scope: &mut Scope<'_>, name: &str, entry: &Entry) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let fault = |code, message: String, place, label: &str| Diagnostic::error(code, message).at(place, label);
    let (key, place) = (entry.key.clone(), entry.value.place.clone());
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let secret = entry.value.value.split_whitespace().any(looks_like_key);
    if secret || KEY_HEADERS.contains(&lower.as_str()) {
        scope.report(
            fault(
                Code::SecretInFile,
                format!("the header `{name}` holds a key"),
                place,
                "a key must not stand in a file",
            )
            .help("name the variable that holds the key: api_key_env = \"ANTHROPIC_API_KEY\""),
        );
        return None;
    }
    if name.is_empty() || !name.chars().all(is_token) {
        scope.report(fault(Code::BadValue, format!("{name:?} is not the name of a header"), key, ""));
        return None;
    }
    if OWN_HEADERS.contains(&lower.as_str()) {
        scope.report(fault(Code::BadValue, format!("the header `{name}` is set by the client"), key, "leave it out"));
        return None;
    }
    let value = scope.fill(&entry.value)?;
    if !value.value.chars().all(|c| matches!(c, ' '..='~')) {
        scope.report(fault(
            Code::BadValue,
            format!("the header `{name}` cannot be sent"),
            place,
            "must be plain ASCII",
        ));
        return None;
    }
    Some(value.value)
}

/// The cap of one answer: as written, never above the limit of the model, and smaller than the window.
fn max_output(
    scope: &mut Scope<'_>,
    spec: &ModelSpec,
    facts: Option<&ModelFacts>,
    context_window: Tokens,
) -> Option<Tokens> {
    let written = spec.max_output_tokens.as_ref()?;
    let most = facts.map_or(written.value, |facts| facts.max_output);
    if written.value > most && written.layer() != Layer::BuiltIn {
        scope.report(
            Diagnostic::error(Code::OutOfRange, "`max_output_tokens` is more than the model can give")
                .at(written.place.clone(), format!("at most {}", grouped(most.0))),
        );
        return None;
    }
    let output = written.value.min(most);
    if output < context_window {
        return Some(output);
    }
    let at = spec.context_window.as_ref().filter(|_| written.layer() == Layer::BuiltIn);
    let place = at.map_or(&written.place, |window| &window.place).clone();
    scope.report(Diagnostic::error(Code::OutOfRange, "an answer would fill the whole context window").at(
        place,
        format!("max_output_tokens is {}, the context window {}", grouped(output.0), grouped(context_window.0)),
    ));
    None
}

/// What an answer may have that the default cap has cut: 64,000 tokens or the model's limit.
///
/// The default cap is small because what is reserved for an answer cannot be spent on others; a cap that a person has set is kept.
fn escalated_output(spec: &ModelSpec, facts: Option<&ModelFacts>, max_output: Tokens) -> Option<Tokens> {
    let is_default = spec.max_output_tokens.as_ref().is_some_and(|written| written.layer() == Layer::BuiltIn);
    let escalated = facts?.max_output.min(Tokens(64_000));
    (is_default && escalated > max_output).then_some(escalated)
}

/// Something is wrong, and it was reported.
struct Reported;

fn thinking(
    scope: &mut Scope<'_>,
    spec: &ModelSpec,
    facts: Option<&ModelFacts>,
    model: &str,
    max_output: Tokens,
) -> Result<Option<Thinking>, Reported> {
    let Some(written) = &spec.thinking else { return Ok(None) };
    if let Some(facts) = facts.filter(|facts| !facts.accepts(written.value)) {
        let accepted = facts.accepted().join(" or ");
        scope.report(
            Diagnostic::error(Code::ThinkingRefused, format!("`{model}` refuses this kind of thinking"))
                .at(written.place.clone(), format!("this model takes {accepted}"))
                .help("leave `thinking` out to have the model's own default"),
        );
        return Err(Reported);
    }
    if let Thinking::Budget(budget) = written.value
        && budget >= max_output
        && !scope.is_broken(&["model.max_output_tokens"])
    {
        scope.report(
            Diagnostic::error(Code::OutOfRange, "the thinking budget leaves nothing for the answer")
                .at(
                    written.place.clone(),
                    format!("must be less than max_output_tokens, which is {}", grouped(max_output.0)),
                )
                .help(format!("for example: max_output_tokens = {}", budget.0.saturating_add(8_192))),
        );
        return Err(Reported);
    }
    Ok(Some(written.value))
}

/// The cap on money, where it can be enforced: one that somebody wrote needs the prices of all models, the default one that of the
/// main model.
fn max_cost(
    scope: &mut Scope<'_>,
    job: &JobSpec,
    unpriced: &[&Written<String>],
    main_is_priced: bool,
) -> Result<Option<Usd>, Reported> {
    let written = job.max_cost_usd.as_ref().ok_or(Reported)?;
    if unpriced.is_empty() {
        return Ok(Some(written.value));
    }
    if written.layer() == Layer::BuiltIn {
        // What can be counted is capped all the same.
        return Ok(main_is_priced.then_some(written.value));
    }
    let report = Diagnostic::error(Code::PriceUnknown, "`max_cost_usd` cannot be enforced")
        .at(written.place.clone(), "a cap on money")
        .help("leave `max_cost_usd` out and rely on `token_budget`, or take a model of the built-in table");
    let label = "the price of this model is not known";
    scope.report(unpriced.iter().fold(report, |report, model| report.also(model.place.clone(), label)));
    Err(Reported)
}
