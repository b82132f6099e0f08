//! What each job waits for, for a person who asks with a signal.

use super::Dispatcher;
use crate::schedule::{Attempt, Waiting};
use crate::units::show_duration;

impl Dispatcher {
    /// A line for each job that is not over.
    pub(super) fn waits(&self) -> String {
        let now = self.context.clock.now();
        let mut lines = vec![format!("{} into the run:", show_duration(now.0))];
        for Attempt { job, number } in self.scheduler.running() {
            let job = &self.jobs[job];
            let number = if job.course.tries() > 1 { format!(" (try {number})") } else { String::new() };
            let doing = self.sink.stats().job(&job.id).map_or("", |job| job.live.doing.as_str());
            let doing = if doing.is_empty() { "starts" } else { doing };
            lines.push(format!("  {}{number}: {doing}", job.id));
        }
        for (job, why) in self.scheduler.waiting() {
            let why = match why {
                Waiting::Need(need) => format!("waits for `{}` to pass", self.jobs[need].id),
                Waiting::Group(_) => {
                    let group =
                        self.jobs[job].course.group.as_ref().map(|group| group.name.as_str()).unwrap_or_default();
                    format!("waits for room in the group `{group}`")
                }
                Waiting::Slot => "waits for a slot".to_owned(),
            };
            lines.push(format!("  {}: {why}", self.jobs[job].id));
        }
        lines.join("\n")
    }
}
