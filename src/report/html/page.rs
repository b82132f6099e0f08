//! The page as a whole, and what is left out when it would grow too large.
//!
//! Every job has its row, and as long as there is room its evidence, what needs eyes first. What is left goes to patches and
//! transcripts: first those of jobs that need eyes, in equal shares, then those of the others. Each cut says so where it is.

use super::door::{Html, size};
use super::talk::Talk;
use super::tape::{Tape, Tapes};
use super::words::{Flag, Standing};
use super::{card, diff, top};
use crate::report::tally::{JobStats, RunStats};
use crate::units::JobId;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use std::collections::VecDeque;

/// The largest page, in bytes.
pub const MAX: usize = 16 << 20;
/// The most that patch and transcript of one job take, in bytes.
const JOB_MAX: usize = 192 << 10;
/// The most of a patch, in bytes.
const DIFF_MAX: usize = 64 << 10;
/// How many jobs that need eyes are whole from the start; what is behind the others is made when they are opened.
const AT_ONCE: usize = 40;
/// Below this a patch is not begun.
const DIFF_LEAST: usize = 1_200;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// A job whose files are asked for, and how much of the page they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// By its place in the run.
    job: usize,
    /// What its transcript may take of the page.
    talk: usize,
    /// What its patch may take of the page.
    diff: usize,
}

/// The page while it is made.
#[derive(Debug)]
pub struct Page<'a> {
    stats: &'a RunStats,
    tapes: Tapes,
    max: usize,
    used: usize,
    /// Jobs in the order of the page.
    order: Vec<usize>,
    cards: BTreeMap<usize, Card>,
    urgent: VecDeque<usize>,
    others: VecDeque<usize>,
}

#[derive(Debug, Default)]
struct Card {
    row: Html,
    body: Html,
    files: Html,
    foot: Html,
}

impl<'a> Page<'a> {
    /// A page of at most about `max` bytes ([`MAX`] by default). `has_files` says whether a job's folder lies below
    /// that of the page.
    #[must_use]
    pub fn new(stats: &'a RunStats, tapes: Tapes, max: usize, has_files: impl Fn(&JobId) -> bool) -> Self {
        let mut order: Vec<usize> = (0..stats.jobs.len()).collect();
        order.sort_by_key(|index| rank(&stats.jobs[*index]));
        let mut page = Page {
            stats,
            tapes,
            max,
            used: STYLE.len() + SCRIPT.len() + 4_000,
            order,
            cards: BTreeMap::new(),
            urgent: VecDeque::new(),
            others: VecDeque::new(),
        };
        page.lay_out(has_files);
        page
    }

    fn lay_out(&mut self, has_files: impl Fn(&JobId) -> bool) {
        let tail = (self.max / 10).checked_div(self.stats.jobs.len()).unwrap_or_default().clamp(600, 8_000);
        let no_tape = Tape::default();
        for index in self.order.clone() {
            let job = &self.stats.jobs[index];
            let mut one = Card::default();
            card::row(&mut one.row, job);
            if self.used + one.row.len() > self.max {
                break;
            }
            self.used += one.row.len();
            let tape = self.tapes.of(&job.info.id).unwrap_or(&no_tape);
            card::body(&mut one.body, job, tape, tail);
            card::foot(&mut one.foot, job, has_files(&job.info.id));
            // Rows of further jobs are worth more than evidence beyond this.
            if self.used + one.body.len() + one.foot.len() > self.max / 4 * 3 {
                (one.body, one.foot) = (Html::default(), Html::default());
            } else {
                self.used += one.body.len() + one.foot.len();
                if rank(job) <= LAST_URGENT { self.urgent.push_back(index) } else { self.others.push_back(index) }
            }
            self.cards.insert(index, one);
        }
    }

    /// The next job whose patch and transcript there is room for; hand them over by [`Page::fill`].
    pub fn next_place(&mut self) -> Option<Place> {
        let waiting = if self.urgent.is_empty() { &mut self.others } else { &mut self.urgent };
        let count = waiting.len();
        let job = waiting.pop_front()?;
        let share = (self.max.saturating_sub(self.used) / count).min(JOB_MAX);
        let diff = (share / 3).min(DIFF_MAX);
        Some(Place { job, talk: share - diff, diff })
    }

    /// The job of a place.
    #[must_use]
    pub fn job(&self, place: Place) -> &'a JobId {
        &self.stats.jobs[place.job].info.id
    }

    /// What takes the lines of that job's transcript; `None` where there is no room for any.
    #[must_use]
    pub fn talk(&self, place: Place) -> Option<Talk> {
        let start = self.tapes.of(self.job(place)).and_then(|tape| tape.started).unwrap_or_default();
        (place.talk >= Talk::LEAST).then(|| Talk::new(place.talk, start))
    }

    /// Adds the files of a job. `patch` is its beginning, of which `unread` more bytes follow.
    pub fn fill(&mut self, place: Place, patch: &str, unread: usize, talk: Option<Talk>) {
        let Some(card) = self.cards.get_mut(&place.job) else { return };
        let job = &self.stats.jobs[place.job];
        let is_urgent = rank(job) <= LAST_URGENT;
        let html = &mut card.files;
        if place.diff >= DIFF_LEAST {
            diff::draw(html, patch, unread, place.diff, is_urgent);
        } else if !patch.is_empty() {
            left_out(html, "The patch", patch.len() + unread);
        }
        if let Some(tape) = self.tapes.of(&job.info.id) {
            card::turns(html, tape, (place.talk / 4).min(40_000));
        }
        match talk {
            Some(talk) => talk.draw(html, false),
            None => left_out(html, "The transcript", 0),
        }
        self.used += html.len();
    }

    /// The whole page.
    #[must_use]
    pub fn finish(self) -> String {
        let stats = self.stats;
        let mut html = Html::default();
        html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" content=\"");
        html.text(&policy()).raw("\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\"><meta name=\"referrer\" content=\"no-referrer\"><title>");
        html.text(&top::headline(stats)).raw(" · runner ").line(&stats.run.id.0, 100);
        html.raw("</title><link rel=\"icon\" href=\"data:,\"><style>")
            .raw(STYLE)
            .raw("</style></head><body><a class=\"skip\" href=\"#jobs\">To the jobs</a>");
        top::head(&mut html, stats);
        html.raw("<main>");
        top::look(&mut html, stats);
        top::filters(&mut html, stats);
        html.raw("<section id=\"jobs\" aria-label=\"Jobs\"><p class=\"cols\" aria-hidden=\"true\"><span>Verdict</span><span>Job</span><span>Reason</span><span>Turns</span><span>Tokens</span><span>Cost</span><span>Time</span></p>");
        for (place, index) in self.order.iter().enumerate() {
            let Some(one) = self.cards.get(index) else { continue };
            let at_once = place < AT_ONCE && rank(&stats.jobs[*index]) <= LAST_URGENT;
            html.add(&one.row);
            if one.body.is_empty() {
                html.raw("<p class=\"cut\">There is no room for more about this job: see its folder.</p></details>");
                continue;
            }
            // A browser with scripts reads this as plain text, in no time; one without them as what it is.
            html.raw(if at_once { "<div class=\"body\">" } else { "<noscript><div class=\"body\">" });
            html.add(&one.body).add(&one.files).add(&one.foot);
            html.raw(if at_once { "</div></details>" } else { "</div></noscript></details>" });
        }
        let missing = self.order.len() - self.cards.len();
        if missing > 0 {
            html.raw("<p class=\"cut\">")
                .show(missing)
                .raw(" more jobs are left out of this page: run.json names them all.</p>");
        }
        html.raw("<p id=\"none\" class=\"dim\" hidden>No job matches.</p></section></main><script>").raw(SCRIPT);
        html.raw("</script></body></html>\n");
        html.into_string()
    }
}

fn left_out(html: &mut Html, what: &'static str, bytes: usize) {
    html.raw("<p class=\"cut\">").raw(what);
    if bytes > 0 {
        html.raw(" (").text(&size(bytes)).raw(")");
    }
    html.raw(" is left out of this page, which is bounded: see the job’s folder.</p>");
}

/// The last rank whose jobs need eyes.
const LAST_URGENT: usize = 4;

/// What needs eyes comes first; the order of the plan within a rank.
fn rank(job: &JobStats) -> usize {
    match Standing::of(job) {
        Standing::Failed => 0,
        Standing::Error => 1,
        Standing::Cancelled => 2,
        Standing::Open => 3,
        Standing::Passed if job.report().is_some_and(|report| Flag::of(report).iter().any(|flag| flag.is_urgent())) => {
            LAST_URGENT
        }
        Standing::Skipped => 5,
        Standing::Passed => 6,
    }
}

/// What the page may do: show itself with its own style, and run its own script, known by their digests. Nothing is fetched.
fn policy() -> String {
    let digest = |text: &str| STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        digest(STYLE),
        digest(SCRIPT)
    )
}
