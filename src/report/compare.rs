//! Two runs side by side: what changed for the worse, for the better, and what it cost.

use crate::event::JobReport;
use crate::outcome::Verdict;
use crate::report::cut;
use crate::units::{JobId, show_duration};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Two runs side by side.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    rows: Vec<Row>,
    totals: [Side; 2],
}

#[derive(Clone, Debug)]
struct Row {
    job: JobId,
    sides: [Option<Side>; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Side {
    verdict: Option<Verdict>,
    reason: &'static str,
    turns: u32,
    tokens: u64,
    prompt: u64,
    cached: u64,
    dollars: f64,
    seconds: f64,
}

impl Comparison {
    /// Of the jobs of two runs.
    #[must_use]
    pub fn of<'a>(
        before: impl IntoIterator<Item = &'a JobReport>,
        after: impl IntoIterator<Item = &'a JobReport>,
    ) -> Self {
        let mut rows: BTreeMap<JobId, [Option<Side>; 2]> = BTreeMap::new();
        let mut totals = [Side::default(); 2];
        for (at, report) in
            before.into_iter().map(|report| (0, report)).chain(after.into_iter().map(|report| (1, report)))
        {
            let side = Side::of(report);
            rows.entry(report.info.id.clone()).or_default()[at] = Some(side);
            totals[at].add(&side);
        }
        Self { rows: rows.into_iter().map(|(job, sides)| Row { job, sides }).collect(), totals }
    }

    /// Jobs that passed before and do not now.
    #[must_use]
    pub fn newly_failing(&self) -> usize {
        self.rows.iter().filter(|row| row.change() == "newly failing").count()
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for kind in ["newly failing", "newly passing", "new", "gone"] {
            for row in self.rows.iter().filter(|row| row.change() == kind) {
                let reason = |side: &Option<Side>| side.map_or("-", |side| side.reason);
                let _ = writeln!(text, "{kind}: {} ({} -> {})", row.job, reason(&row.sides[0]), reason(&row.sides[1]));
            }
        }
        let same = self.rows.iter().filter(|row| row.change().is_empty()).count();
        let _ = writeln!(text, "unchanged: {same} jobs");
        let [before, after] = &self.totals;
        for (name, one, other) in [
            ("cost", format!("${:.4}", before.dollars), format!("${:.4}", after.dollars)),
            ("turns", before.turns.to_string(), after.turns.to_string()),
            ("tokens", before.tokens.to_string(), after.tokens.to_string()),
            ("cache share", before.share(), after.share()),
            ("time", before.time(), after.time()),
        ] {
            let _ = writeln!(text, "{name:<12} {one:>14} -> {other:>14}");
        }
        text
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let side = |side: &Side| {
            json!({
                "verdict": side.verdict.map(Verdict::code), "reason": side.reason, "turns": side.turns, "tokens": side.tokens,
                "cost_usd": side.dollars, "duration_s": side.seconds, "cache_share": side.cache_share(),
            })
        };
        let row = |row: &Row| {
            json!({
                "job": row.job.as_str(), "change": Some(row.change()).filter(|change| !change.is_empty()),
                "before": row.sides[0].as_ref().map(side), "after": row.sides[1].as_ref().map(side),
            })
        };
        json!({
            "schema": 1, "newly_failing": self.newly_failing(), "before": side(&self.totals[0]), "after": side(&self.totals[1]),
            "jobs": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

impl Row {
    fn change(&self) -> &'static str {
        let passed = |side: &Side| side.verdict == Some(Verdict::Passed);
        match &self.sides {
            [Some(before), Some(after)] => match (passed(before), passed(after)) {
                (true, false) => "newly failing",
                (false, true) => "newly passing",
                (true, true) | (false, false) => "",
            },
            [None, Some(_)] => "new",
            [Some(_), None] => "gone",
            [None, None] => "",
        }
    }
}

impl Side {
    fn of(report: &JobReport) -> Self {
        let usage = &report.usage;
        Self {
            verdict: Some(report.outcome.verdict()),
            reason: report.outcome.reason.code(),
            turns: report.turns.0,
            tokens: report.counted_tokens().0,
            prompt: usage.prompt().0,
            cached: usage.cache_read.0,
            dollars: report.cost.map(crate::units::Usd::dollars).unwrap_or_default(),
            seconds: report.duration.as_secs_f64(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.tokens += other.tokens;
        self.prompt += other.prompt;
        self.cached += other.cached;
        self.dollars += other.dollars;
        self.seconds += other.seconds;
    }

    fn cache_share(&self) -> Option<f64> {
        (self.prompt > 0).then(|| self.cached as f64 / self.prompt as f64)
    }

    fn share(&self) -> String {
        self.cache_share().map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0))
    }

    fn time(&self) -> String {
        cut::one_line(&show_duration(std::time::Duration::from_secs_f64(self.seconds)), 40)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Reason;
    use crate::report::sample;

    #[test]
    fn what_got_worse_comes_first() {
        let before = [sample::report("a", Reason::Completed), sample::report("b", Reason::Api)];
        let after = [
            sample::report("a", Reason::GateFailed),
            sample::report("b", Reason::Completed),
            sample::report("c", Reason::Api),
        ];
        let comparison = Comparison::of(&before, &after);
        assert_eq!(comparison.newly_failing(), 1);
        insta::assert_snapshot!(comparison.text(), @"
        newly failing: a (completed -> gate_failed)
        newly passing: b (api -> completed)
        new: c (- -> api)
        unchanged: 0 jobs
        cost                $0.0246 ->        $0.0369
        turns                    14 ->             21
        tokens                 3000 ->           4500
        cache share            81 % ->           81 %
        time                  24.6s ->          36.9s
        ");
        assert_eq!(comparison.json()["jobs"][0]["change"], "newly failing");
    }
}
