//! The loop by simulation: random histories, and what must hold at every step of each.

use super::*;
use proptest::prelude::*;

/// What the world does next; which of it is possible depends on what the query waits for.
#[derive(Clone, Debug)]
enum Move {
    Reply { tools: Vec<bool>, stop: u8, prompt: u64, output: f64 },
    Fail(u8),
    Tool(usize),
    Hook(u8),
    Wait(u64),
    Cancel,
    Stale,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let reply = (proptest::collection::vec(any::<bool>(), 0..4), 0_u8..12, 0_u64..8_000, 0.0_f64..=1.0)
        .prop_map(|(tools, stop, prompt, output)| Move::Reply { tools, stop, prompt, output });
    let one = prop_oneof![
        8 => reply,
        2 => (0_u8..4).prop_map(Move::Fail),
        8 => (0_usize..4).prop_map(Move::Tool),
        4 => (0_u8..4).prop_map(Move::Hook),
        1 => (0_u64..20).prop_map(Move::Wait),
        1 => Just(Move::Stale),
        1 => Just(Move::Cancel),
    ];
    proptest::collection::vec(one, 1..120)
}

#[derive(Default)]
struct World {
    call: Option<ModelCall>,
    tools: Vec<ToolUse>,
    hook: Option<usize>,
    next_id: u32,
    calls: u32,
    finished: bool,
    error_seen: bool,
}

impl World {
    fn event(&mut self, what: &Move, now: &mut Elapsed) -> Option<Event> {
        match what {
            Move::Reply { tools, stop, prompt, output } => {
                let call = self.call.take()?;
                let mut blocks = vec![Block::Text(if *stop % 2 == 0 { "text".into() } else { " ".into() })];
                for reads in tools {
                    self.next_id += 1;
                    let name = if *reads { "Read" } else { "Write" };
                    let input = if *stop == 1 {
                        ToolInput::Invalid { raw: "{".into(), problem: "cut".into() }
                    } else {
                        ToolInput::Object(Map::new())
                    };
                    blocks.push(Block::ToolUse(ToolUse {
                        id: format!("t{}", self.next_id).into(),
                        name: name.into(),
                        input,
                    }));
                }
                let stop = match stop {
                    0 => Stop::Refusal("no".into()),
                    1 => Stop::MaxTokens,
                    2 => Stop::ContextWindow,
                    _ => Stop::Ordinary("end_turn".into()),
                };
                let output = Tokens((call.max_output.0 as f64 * output) as u64);
                let usage = Usage { input: Tokens(*prompt), output, ..Usage::default() };
                Some(Event::Reply {
                    call: call.id,
                    reply: Reply { blocks, stop, usage, cleared: None, request_id: None },
                })
            }
            Move::Fail(kind) => {
                let call = self.call.take()?;
                let (remedy, kind) = match kind {
                    0 => (Remedy::GiveUp, ModelErrorKind::Auth),
                    1 => (Remedy::Retry { after: Some(Duration::from_secs(5)) }, ModelErrorKind::RateLimited),
                    _ => (Remedy::Retry { after: None }, ModelErrorKind::Overloaded),
                };
                let failure = Failure { remedy, kind, message: "m".into(), request_id: None, status: None };
                Some(Event::ModelFailed { call: call.id, failure, usage: None })
            }
            Move::Tool(index) => {
                let index = index.checked_rem(self.tools.len())?;
                let call = self.tools.swap_remove(index);
                Some(Event::ToolDone(ToolResult::new(call.id, "", false)))
            }
            Move::Hook(kind) => {
                let index = self.hook.take()?;
                let status = match kind {
                    0 => HookStatus::Pass,
                    1 => HookStatus::TimedOut,
                    _ => HookStatus::Fail { exit_code: None },
                };
                let result = HookResult { status, tail: String::new(), duration: Duration::ZERO };
                Some(Event::HookDone { index, result })
            }
            Move::Wait(seconds) => {
                *now = now.plus(Duration::from_secs(*seconds));
                Some(Event::Tick)
            }
            Move::Cancel => Some(Event::Cancel(AbortReason::Interrupt)),
            Move::Stale => Some(Event::ToolDone(ToolResult::new("nobody".into(), "", false))),
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) -> Result<(), TestCaseError> {
        for effect in effects {
            prop_assert!(!self.finished, "an effect after the end: {effect:?}");
            match effect {
                Effect::CallModel(call) => {
                    prop_assert!(self.call.is_none() && self.tools.is_empty() && self.hook.is_none());
                    prop_assert_eq!(call.history.check(), Ok(()));
                    prop_assert!(call.max_output >= MIN_OUTPUT);
                    self.calls += 1;
                    self.call = Some(call);
                }
                Effect::RunTool(call) => {
                    prop_assert!(self.call.is_none());
                    let alone = |call: &ToolUse| call.name == "Write";
                    prop_assert!(!(self.tools.iter().any(alone) || (alone(&call) && !self.tools.is_empty())));
                    prop_assert!(matches!(call.input, ToolInput::Object(_)));
                    self.tools.push(call);
                }
                Effect::RunHook { index } => {
                    prop_assert!(!self.error_seen, "a gate after an error");
                    self.hook = Some(index);
                }
                Effect::StopAll => *self = Self { calls: self.calls, next_id: self.next_id, ..Self::default() },
                Effect::Finish(end) => {
                    prop_assert_eq!(end.error.is_some(), end.reason.code() == "model_error");
                    prop_assert_eq!(end.abort.is_some(), end.reason.code().starts_with("aborted"));
                    self.finished = true;
                }
                Effect::Record(_) | Effect::Emit(_) => {}
            }
        }
        Ok(())
    }
}

fn play(params: &Params, script: &[Move]) -> Result<(Query, World), TestCaseError> {
    let mut world = World::default();
    let mut query = Query::new(params.clone());
    let mut now = Elapsed::default();
    let next = |query: &mut Query, world: &mut World, now: Elapsed, event: Event| {
        let errs = matches!(&event, Event::ModelFailed { failure, .. } if failure.remedy == Remedy::GiveUp);
        world.error_seen |= errs;
        let before = query.state().turn_count;
        let effects = query.step(now, event);
        prop_assert!(query.state().turn_count >= before, "the turn count went back");
        prop_assert!(query.turns() <= params.max_turns, "more turns than allowed");
        world.perform(effects)
    };
    next(&mut query, &mut world, now, Event::Start)?;
    for what in script {
        if let Some(event) = world.event(what, &mut now) {
            next(&mut query, &mut world, now, event)?;
        }
    }
    // Whatever happened before, the deadline ends it.
    while let Some(deadline) = query.deadline() {
        now = now.max(deadline);
        next(&mut query, &mut world, now, Event::Tick)?;
        if world.call.is_none() && world.tools.is_empty() && world.hook.is_none() && !world.finished {
            prop_assert!(query.deadline().is_none_or(|later| later > now), "it waits for nothing");
        }
    }
    Ok((query, world))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_rules_hold(script in moves(), gates in 0_usize..3, inputs in 0_usize..3) {
        let gates = vec![("g", OnRed::Block, 2); gates];
        let params =
            Params { escalated_output: Some(Tokens(16_000)), ..params(&gates, &vec!["more"; inputs]) };
        // A call for each turn and one for the escalation, each with its retries.
        let bound = (params.max_turns.0 + 1) * (1 + params.patience.retries);
        let (query, world) = play(&params, &script)?;
        prop_assert!(world.finished, "no end");
        prop_assert!(query.model_calls() <= bound, "{} calls, {bound} allowed", query.model_calls());
        prop_assert_eq!(query.model_calls(), world.calls);
        prop_assert!(query.state().output_recovery_count <= 3);
    }

    #[test]
    fn the_same_history_gives_the_same_effects(script in moves()) {
        let gates = [("g", OnRed::Block, 2)];
        let (one, _) = play(&params(&gates, &[]), &script)?;
        let (two, _) = play(&params(&gates, &[]), &script)?;
        prop_assert_eq!(one.state(), two.state());
        prop_assert_eq!(one.ledger(), two.ledger());
    }
}
