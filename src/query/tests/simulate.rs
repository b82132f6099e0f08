//! The simulation: a seeded adversary plays model, tools, hooks, compactor, clock and user against the loop.
//!
//! `cargo test` plays a fixed set of seeds; `RUNNER_SIM_SEEDS=N` plays N more. A failing seed prints a script that becomes a test by
//! pasting: `replay(SEED, "...")`.

use super::world::World;
use super::*;
use crate::outcome::Transition;
use crate::units::{Prices, TokenPrices, Usd};
use std::collections::BTreeMap;

/// The standard set of seeds: enough for a million model calls.
const SEEDS: u64 = 112_000;

/// Numbers from a seed (`SplitMix64`).
struct Rng(u64);

impl Rng {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    const fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

/// What kind of history a seed plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    /// Anything at any time.
    Chaos,
    /// A long job with large results: contexts fill up.
    Long,
    /// As `Long`, and compactors fail or free nothing.
    BadCompactor,
    /// Providers fail most of the time.
    Outage,
    /// Prompts are refused as too long again and again.
    Refusing,
    /// Answers are cut, empty, paused.
    Cut,
    /// The model stops early again and again, hooks object.
    Lazy,
    /// The same call again and again.
    Circles,
}

const MOODS: [Mood; 8] =
    [Mood::Chaos, Mood::Long, Mood::BadCompactor, Mood::Outage, Mood::Refusing, Mood::Cut, Mood::Lazy, Mood::Circles];

/// The parameters that belong to a seed.
fn seeded(seed: u64) -> (Params, Mood) {
    let mut rng = Rng(seed ^ 0x5eed);
    let mood = MOODS[(seed % MOODS.len() as u64) as usize];
    let rules = [OnRed::Block, OnRed::Block, OnRed::Block, OnRed::Stop];
    let gates: Vec<(&str, OnRed, u32)> =
        (0..rng.below(3)).map(|_| ("g", *rng.pick(&rules), 1 + rng.below(4) as u32)).collect();
    let mut params = params(&gates, &["more", "and more"][..rng.below(3) as usize]);
    for rule in &mut params.hooks {
        if rng.chance(50) {
            rule.kind = HookRuleKind::Hook;
        }
    }
    let long = matches!(mood, Mood::Long | Mood::BadCompactor);
    params.max_turns = Turns(if long { 30 + rng.below(60) as u32 } else { 1 + rng.below(25) as u32 });
    let windows: &[u64] = if long { &[12_000, 24_000, 40_000] } else { &[6_000, 40_000, 60_000, 200_000] };
    params.caps.tokens = Tokens(*rng.pick(&[20_000, 200_000, 5_000_000, 5_000_000, 5_000_000]));
    if mood == Mood::Lazy && rng.chance(50) {
        // Small enough to be reached, large enough that the last tenth would do for another call.
        params.caps.tokens = Tokens(30_000);
    }
    params.keep_working = rng.chance(if mood == Mood::Lazy { 60 } else { 15 });
    params.task_budget = rng.chance(20).then_some(Tokens(50_000));
    params.patience.retries = rng.below(4) as u32;
    params.features.auto_compact = !rng.chance(7);
    params.features.provider_clearing = rng.chance(50);
    params.clear_agents = rng.chance(40);
    params.overhead = Tokens(500);
    params.loop_limit = 4 + rng.below(9) as u32;
    params.seed = seed;
    let mut limits = |name: &str| ModelLimits {
        context_window: Tokens(*rng.pick(windows)),
        escalated_output: rng.chance(50).then_some(Tokens(32_000)),
        binds_thinking: rng.chance(30),
        ..model(name)
    };
    params.models = Models { main: limits("main"), fallback: Some(limits("fallback")), small: Some(limits("small")) };
    if rng.chance(50) {
        params.models.fallback = None;
    }
    if rng.chance(60) {
        params.models.small = None;
    }
    if rng.chance(15) {
        let base = TokenPrices { input: Usd::per_token(2.0), output: Usd::per_token(10.0), ..TokenPrices::default() };
        params.models.main.prices = Prices { base, tiers: Vec::new() };
        params.caps.cost = Some(Usd::from_dollars(*rng.pick(&[0.02, 0.2, 2.0])));
    }
    (params, mood)
}

/// The adversary of one seed.
struct Adversary {
    rng: Rng,
    mood: Mood,
    /// Pauses and pauses again.
    pauses: bool,
    /// Uses the ids of its calls again and again.
    repeats: bool,
    /// Says honestly what calls use.
    honest: bool,
    next_id: u64,
    used_ids: Vec<String>,
    /// What each open call will be answered with, and how many blocks of it are out.
    plans: BTreeMap<CallId, (Vec<String>, usize)>,
}

impl Adversary {
    fn line(&mut self, world: &World) -> String {
        let calls: Vec<&ModelCall> = world.calls.values().collect();
        let runs: Vec<ToolRunId> = world.runs.keys().copied().collect();
        if self.rng.chance(2) {
            return self.noise();
        }
        let mut doors: Vec<u8> = Vec::new();
        doors.extend(calls.iter().map(|_| 0));
        doors.extend(runs.iter().map(|_| 1));
        if world.hook.is_some() {
            doors.push(2);
        }
        match doors.get(self.rng.below(doors.len().max(1) as u64) as usize) {
            Some(0) => {
                let call = *self.rng.pick(&calls);
                self.model(call)
            }
            Some(1) => {
                let run = *self.rng.pick(&runs);
                if world.clears(run) && self.rng.chance(80) {
                    return format!("> clear@{}", run.0);
                }
                self.tool(run)
            }
            Some(_) => {
                let most = if self.mood == Mood::Lazy {
                    "red object red object pass red"
                } else {
                    "pass pass red object late"
                };
                let rare = "broken prevent";
                let ends: Vec<&str> = if self.rng.chance(3) { rare } else { most }.split(' ').collect();
                format!("> hook {} {}", world.hook.unwrap_or_default(), self.rng.pick(&ends))
            }
            // Nothing is open: it waits for the time.
            None => format!("+ {}", 1 + self.rng.below(9)),
        }
    }

    /// What comes at any time: aborts, ends of background commands, late news, time.
    fn noise(&mut self) -> String {
        match self.rng.below(12) {
            0 if self.rng.chance(20) => {
                let reasons = ["interrupt", "fail_fast", "input", "timeout", "cost_limit", "loop_detected"];
                format!("> cancel {}", self.rng.pick(&reasons))
            }
            1 => {
                self.next_id += 1;
                format!("> ended c{}", self.next_id)
            }
            2 => "> tool@9999999 ok".into(),
            3 => "> answer@0 end text".into(),
            4 => "> fail@0 giveup auth".into(),
            5 => "> hook 7 red".into(),
            6 => "> block@0 Read:zz".into(),
            7 => "> start".into(),
            8 => format!("> told {}", self.rng.below(3_000)),
            9 => "+ 0".into(),
            _ => format!("+ 0.{}", self.rng.below(9)),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other moods are ordinary here")]
    fn model(&mut self, call: &ModelCall) -> String {
        let id = call.id.0;
        if call.source == Source::Summary && self.rng.chance(50) {
            return format!("> answer@{id} end text");
        }
        if self.rng.chance(match self.mood {
            Mood::Outage => 70,
            Mood::Refusing => 45,
            _ => 6,
        }) {
            self.plans.remove(&call.id);
            return self.failure(call);
        }
        if call.source == Source::Compact {
            return self.compaction(call);
        }
        if !self.plans.contains_key(&call.id) {
            let plan = self.plan();
            self.plans.insert(call.id, (plan, 0));
        }
        let (plan, out) = self.plans.get_mut(&call.id).map_or_else(|| (Vec::new(), 0), |plan| plan.clone());
        // A stream shows its blocks one by one, or all at the end.
        if out < plan.len() && self.rng.chance(40) {
            self.plans.insert(call.id, (plan.clone(), out + 1));
            return format!("> block@{id} {}", plan[out]);
        }
        self.plans.remove(&call.id);
        let mut blocks = plan;
        if self.rng.chance(2) {
            // It ends otherwise than its blocks promised.
            blocks.pop();
        }
        let stop = match self.mood {
            Mood::Cut if self.pauses => "pause",
            Mood::Cut => *self.rng.pick(&["max", "max", "end", "pause", "full", "tools"]),
            _ if self.rng.chance(4) => *self.rng.pick(&["max", "full", "pause", "refusal", "tools"]),
            _ => "end",
        };
        let cleared = if call.clearing.is_some() && self.rng.chance(30) { " cleared=1" } else { "" };
        format!("> answer@{id} {stop} {}{}{cleared}", self.usage(call), blocks.join(" ")).trim_end().to_owned()
    }

    fn usage(&mut self, call: &ModelCall) -> String {
        let bytes: usize = call.history.iter().map(|message| message.weight()).sum();
        let least = if self.mood == Mood::Lazy { 500 } else { 0 };
        let honest = (bytes as u64 / 3 + 300, least + self.rng.below(call.max_output.0.min(900) - least));
        let (input, output) = if self.honest {
            honest
        } else {
            *self.rng.pick(&[honest, (0, 0), (1, 1), (150_000, 9_000), (honest.0 / 4, honest.1 * 3)])
        };
        format!("in={input} out={output} ")
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other moods are ordinary here")]
    fn failure(&mut self, call: &ModelCall) -> String {
        let id = call.id.0;
        let refusing = ["shrink context", "shrink context", "media media", "thinking invalid"];
        let outage = ["retry overloaded", "retry overloaded", "retry stream", "retry=2 rate", "giveup model"];
        let end = ["giveup auth", "giveup invalid", "retry=999 rate"];
        let how = match self.mood {
            Mood::Refusing => *self.rng.pick(&refusing),
            Mood::Outage if !self.rng.chance(4) => *self.rng.pick(&outage),
            _ if self.rng.chance(60) => *self.rng.pick(&outage[..4]),
            _ if self.rng.chance(60) => *self.rng.pick(&refusing),
            _ => *self.rng.pick(&end),
        };
        let used = if self.honest || self.rng.chance(80) { "" } else { " used=700" };
        format!("> fail@{id} {how}{used}")
    }

    fn compaction(&mut self, call: &ModelCall) -> String {
        let id = call.id.0;
        let usage = self.usage(call);
        let bad = self.mood == Mood::BadCompactor && self.rng.chance(80);
        if bad {
            return match self.rng.below(6) {
                0 => format!("> fail@{id} shrink context"),
                1 => format!("> fail@{id} giveup invalid"),
                2 => format!("> answer@{id} end {usage}blank"),
                3 => format!("> answer@{id} refusal"),
                _ => format!("> answer@{id} end {usage}text:{}", 20_000 + self.rng.below(80_000)),
            };
        }
        match self.rng.below(12) {
            0 => format!("> answer@{id} end {usage}Read:x{id}"),
            1 => format!("> answer@{id} full {usage}text"),
            _ => {
                format!("> answer@{id} {} {usage}text:{}", self.rng.pick(&["end", "max"]), 200 + self.rng.below(2_000))
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other moods are ordinary here")]
    fn plan(&mut self) -> Vec<String> {
        if self.mood == Mood::Circles && self.rng.chance(80) {
            self.next_id += 1;
            return vec![format!("Read:t{}", self.next_id)];
        }
        if self.pauses && self.rng.chance(90) {
            return vec!["text".into()];
        }
        if self.repeats && self.rng.chance(90) {
            return vec![self.block()];
        }
        let stops = match self.mood {
            Mood::Lazy => 70,
            Mood::Long | Mood::BadCompactor => 2,
            Mood::Cut => 40,
            _ => 12,
        };
        if self.rng.chance(stops) {
            let ends = ["text", "text", "text:300", "blank", "think text", "think", "hidden"];
            return self.rng.pick(&ends).split(' ').map(str::to_owned).collect();
        }
        let count = 1 + self.rng.below(4);
        (0..count).map(|_| self.block()).collect()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other moods are ordinary here")]
    fn block(&mut self) -> String {
        let kinds: &[&str] = match self.mood {
            Mood::Long | Mood::BadCompactor => &["Read", "Read", "Read", "Grep", "Bash", "Write", "think"],
            _ => &["Read", "Read", "Grep", "Bash", "Write", "Agent", "General", "text", "blank", "think", "hidden"],
        };
        let kind = *self.rng.pick(kinds);
        if !kind.starts_with(char::is_uppercase) {
            return kind.into();
        }
        let repeats = if self.repeats { 80 } else { 1 };
        if self.rng.chance(repeats) && !self.used_ids.is_empty() {
            return format!("{kind}:{}", self.rng.pick(&self.used_ids));
        }
        self.next_id += 1;
        let id = format!("t{}", self.next_id);
        self.used_ids.push(id.clone());
        let cut = if self.rng.chance(if self.mood == Mood::Cut { 30 } else { 2 }) { ":cut" } else { "" };
        format!("{kind}:{id}{cut}")
    }

    fn tool(&mut self, run: ToolRunId) -> String {
        let run = run.0;
        if self.mood == Mood::Circles {
            return format!("> tool@{run} ok");
        }
        let long = matches!(self.mood, Mood::Long | Mood::BadCompactor);
        let size = if long { 500 + self.rng.below(9_000) } else { self.rng.below(700) };
        let how = match self.rng.below(100) {
            0..=14 => "err",
            15 if self.rng.chance(20) => "ok stop",
            16..=18 => "ok media",
            _ => "ok",
        };
        format!("> tool@{run} {how} {size}")
    }
}

/// What a set of seeds has come to.
#[derive(Default)]
struct Sum {
    calls: u64,
    deaths: u64,
    terminals: BTreeMap<&'static str, u64>,
    transitions: BTreeMap<Transition, u64>,
    layers: BTreeMap<Layer, u64>,
}

/// Plays one seed to its end.
fn play(seed: u64, sum: &mut Sum) -> Result<(), String> {
    let (params, mood) = seeded(seed);
    let mut rng = Rng(seed);
    let honest = rng.chance(80);
    let pauses = mood == Mood::Cut && rng.chance(20);
    let repeats = mood == Mood::Cut && !pauses && rng.chance(20);
    let mut adversary =
        Adversary { rng, mood, pauses, repeats, honest, next_id: 0, used_ids: Vec::new(), plans: BTreeMap::new() };
    let mut world = World::new(params);
    // In one history of 32, of all moods, the process dies now and then.
    world.tape.is_kept = (seed / 8).is_multiple_of(32);
    let step = |world: &mut World, line: String| {
        world.play(line).map_err(|broken| {
            let script = world.script.join("\n");
            format!("seed {seed} ({mood:?}): {broken}\n\nreplay({seed}, r#\"\n{script}\n\"#);\n")
        })
    };
    step(&mut world, "> start".into())?;
    for _ in 0..3_000 {
        if world.end.is_some() {
            break;
        }
        let dies = world.tape.is_kept && world.tape.deaths < 12 && adversary.rng.chance(6);
        let line = if dies { "> kill".into() } else { adversary.line(&world) };
        step(&mut world, line)?;
    }
    // Whatever happened before, the deadline ends it; and what comes late changes nothing.
    step(&mut world, "+ 100000".into())?;
    step(&mut world, "> answer end text".into())?;
    let Some(end) = &world.end else { return Err(format!("seed {seed}: no end")) };
    let ledger = world.play.query.ledger();
    if honest
        && (ledger.used().counted() > ledger.caps().tokens
            || ledger.caps().cost.is_some_and(|cap| ledger.spent() > cap))
    {
        return Err(format!(
            "seed {seed}: a cap was passed though usage was told honestly\n{}",
            world.script.join("\n")
        ));
    }
    sum.calls += world.sent;
    sum.deaths += u64::from(world.tape.deaths);
    *sum.terminals.entry(end.reason.code()).or_default() += 1;
    for (transition, count) in world.transitions {
        *sum.transitions.entry(transition).or_default() += u64::from(count);
    }
    for (layer, count) in world.layers {
        *sum.layers.entry(layer).or_default() += u64::from(count);
    }
    Ok(())
}

/// Plays a script that the simulation printed.
fn replay(seed: u64, script: &str) {
    let mut world = World::new(seeded(seed).0);
    world.tape.is_kept = (seed / 8).is_multiple_of(32);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Err(broken) = world.play(line.to_owned()) {
            panic!("{broken}\n{}", world.script.join("\n"));
        }
    }
}

#[test]
fn whatever_happens_the_rules_hold() {
    #[expect(clippy::disallowed_methods, reason = "how many more seeds a developer wants is the environment's to say")]
    let more: u64 = std::env::var("RUNNER_SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(0);
    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(8) as u64;
    let seeds = SEEDS + more;
    let sums: Vec<Result<Sum, String>> = std::thread::scope(|scope| {
        let work = |worker: u64| {
            move || {
                let mut sum = Sum::default();
                for seed in (worker..seeds).step_by(workers as usize) {
                    play(seed, &mut sum)?;
                }
                Ok(sum)
            }
        };
        let threads: Vec<_> = (0..workers).map(|worker| scope.spawn(work(worker))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut whole = Sum::default();
    for sum in sums {
        let sum = sum.unwrap_or_else(|broken| panic!("{broken}"));
        whole.calls += sum.calls;
        whole.deaths += sum.deaths;
        sum.terminals.into_iter().for_each(|(code, count)| *whole.terminals.entry(code).or_default() += count);
        sum.transitions.into_iter().for_each(|(code, count)| *whole.transitions.entry(code).or_default() += count);
        sum.layers.into_iter().for_each(|(layer, count)| *whole.layers.entry(layer).or_default() += count);
    }
    // What the simulation never reaches, it proves nothing about.
    assert!(whole.calls >= 1_000_000, "only {} model calls", whole.calls);
    assert!(whole.deaths >= 3_000, "only {} deaths", whole.deaths);
    for reason in crate::outcome::TerminalReason::ALL {
        assert!(whole.terminals.contains_key(reason.code()), "never {}: {:?}", reason.code(), whole.terminals);
    }
    for transition in Transition::ALL {
        assert!(whole.transitions.contains_key(&transition), "never {}", transition.code());
    }
    for layer in Layer::ALL {
        assert!(whole.layers.contains_key(&layer), "never {}", layer.code());
    }
    eprintln!(
        "{} calls; {} deaths; {:?}; {:?}; {:?}",
        whole.calls, whole.deaths, whole.terminals, whole.transitions, whole.layers
    );
}

#[test]
fn the_same_history_gives_the_same_effects() {
    for seed in 0..64 {
        let (mut one, mut two) = (Sum::default(), Sum::default());
        play(seed, &mut one).unwrap();
        play(seed, &mut two).unwrap();
        assert_eq!((one.calls, one.terminals), (two.calls, two.terminals));
    }
}

#[test]
fn a_printed_script_plays_as_the_seed_did() {
    replay(3, "> start\n> fail@1 retry overloaded\n+ 100000\n> answer end text");
}
