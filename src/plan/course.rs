//! Resolves when a job runs and how often it is tried; and what jobs say about each other.

use super::job::{Course, Group, OnPass, PlannedJob};
use super::scope::Scope;
use crate::spec::{Code, CourseSpec, Diagnostic, JobSpec, Place, nearest_word};
use crate::units::JobId;
use std::collections::BTreeMap;

/// What `base` says before the name of the job on whose work a job builds.
pub const JOB_BASE: &str = "job:";

/// What one job says about its course.
pub(super) fn course(scope: &mut Scope<'_>, job: &JobSpec) -> Option<Course> {
    let CourseSpec { retries, retry_on, attempts, needs, priority, group } = &job.course;
    let needs = scope.fill_all(&needs.as_ref()?.value)?;
    let needs: Vec<_> = needs
        .into_iter()
        .map(|need| match JobId::new(&need.value) {
            Ok(id) => Some(id),
            Err(why) => {
                scope.report(
                    Diagnostic::error(Code::BadName, format!("{:?} is no job: {why}", need.value)).at(need.place, ""),
                );
                None
            }
        })
        .collect();
    let group = match group {
        None => None,
        Some(group) => {
            let name = crate::spec::Written::new(group.value.name.clone(), group.place.clone());
            Some(Group { name: scope.fill(&name)?.value, max: group.value.max })
        }
    };
    Some(Course {
        retries: retries.as_ref()?.value,
        retry_on: retry_on.as_ref()?.value.clone(),
        attempts: attempts.as_ref()?.value,
        needs: needs.into_iter().collect::<Option<_>>()?,
        priority: priority.as_ref()?.value,
        group,
    })
}

/// Where a job says what it needs, its base and its group; where it says nothing, where it stands itself.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) needs: Place,
    pub(super) base: Place,
    pub(super) group: Place,
}

impl Said {
    pub(super) fn of(job: &JobSpec, place: &Place) -> Self {
        let or = |written: Option<&Place>| written.unwrap_or(place).clone();
        Self {
            needs: or(job.course.needs.as_ref().map(|needs| &needs.place)),
            base: or(job.worktree.base.as_ref().map(|base| &base.place)),
            group: or(job.course.group.as_ref().map(|group| &group.place)),
        }
    }
}

/// What is wrong between jobs: needs that are no jobs or go round in circles, bases without their needs, groups of two sizes.
pub(super) fn between(jobs: &[(&PlannedJob, &Said)]) -> Vec<Diagnostic> {
    let places: BTreeMap<&JobId, usize> = jobs.iter().enumerate().map(|(at, (job, _))| (&job.id, at)).collect();
    let names: Vec<&str> = jobs.iter().map(|(job, _)| job.id.as_str()).collect();
    let mut found = Vec::new();
    let mut groups: BTreeMap<&str, (u32, &Place)> = BTreeMap::new();
    for (job, said) in jobs {
        for need in &job.course.needs {
            if !places.contains_key(need) {
                let report = Diagnostic::error(
                    Code::NotFound,
                    format!("`{}` needs `{need}`, which is no job of this run", job.id),
                )
                .at(said.needs.clone(), "");
                found.push(match nearest_word(&names, need.as_str()) {
                    Some(near) => report.help(format!("you may have meant `{near}`")),
                    None => report.help("name a job of the files that are run; those of a matrix end in its values"),
                });
            }
        }
        if let Some(name) = job.worktree.base.strip_prefix(JOB_BASE)
            && !job.course.needs.iter().any(|need| need.as_str() == name)
        {
            found.push(
                Diagnostic::error(Code::Conflict, format!("`{}` builds on `{name}` but does not need it", job.id))
                    .at(said.base.clone(), "this is the work of another job")
                    .help(format!("add it: needs = [\"{name}\"]")),
            );
        }
        if let Some(name) = job.worktree.base.strip_prefix(JOB_BASE)
            && jobs.iter().any(|(other, _)| other.id.as_str() == name && other.publish.on_pass == OnPass::None)
        {
            found.push(
                Diagnostic::error(Code::Conflict, format!("`{}` builds on `{name}`, which leaves no commit", job.id))
                    .at(said.base.clone(), "its work stays a patch: on_pass = \"none\"")
                    .help(format!("let `{name}` say on_pass = \"branch\"")),
            );
        }
        if let Some(group) = &job.course.group {
            let (max, place) = groups.entry(&group.name).or_insert((group.max, &said.group));
            if *max != group.max {
                found.push(
                    Diagnostic::error(
                        Code::Conflict,
                        format!("the group `{}` has two sizes, {max} and {}", group.name, group.max),
                    )
                    .at(said.group.clone(), "this one")
                    .also((*place).clone(), "and this one")
                    .help("give it the same `max` everywhere"),
                );
            }
        }
    }
    found.extend(circle(jobs, &places));
    found
}

/// A circle of needs, spelled out.
fn circle(jobs: &[(&PlannedJob, &Said)], places: &BTreeMap<&JobId, usize>) -> Option<Diagnostic> {
    let needs = |at: usize| jobs[at].0.course.needs.iter().filter_map(|need| places.get(need).copied());
    let mut done = vec![false; jobs.len()];
    for start in 0..jobs.len() {
        // Depth first, with the way by which we came.
        let mut way: Vec<(usize, Vec<usize>)> = vec![(start, needs(start).collect())];
        while let Some((at, open)) = way.last_mut() {
            let at = *at;
            let Some(next) = open.pop() else {
                done[at] = true;
                way.pop();
                continue;
            };
            if let Some(first) = way.iter().position(|(seen, _)| *seen == next) {
                let names = way[first..].iter().map(|(at, _)| *at).chain([next]);
                let names: Vec<String> = names.map(|at| format!("`{}`", jobs[at].0.id)).collect();
                let report =
                    Diagnostic::error(Code::Conflict, "jobs need each other in a circle, so none of them can start")
                        .at(jobs[at].1.needs.clone(), "")
                        .note(names.join(" needs "));
                return Some(report.help("leave one of these needs out"));
            }
            if !done[next] {
                way.push((next, needs(next).collect()));
            }
        }
    }
    None
}
