//! One job for each combination of a matrix, each with its name.

use super::matrix::{Combination, MAX_COMBINATIONS, combinations, shown};
use super::names::{as_name, job_name, unique};
use super::resolve::JobFile;
use super::template::{Names, fill};
use crate::spec::{Code, Diagnostic, JobSpec, Place, Written, grouped};
use crate::units::{JobId, RunId};
use std::collections::BTreeSet;

/// A job that has its name, and nothing else yet.
pub(super) struct Named {
    pub(super) id: JobId,
    /// Where the name was written, or the head of the file that it was made from.
    pub(super) place: Place,
    pub(super) combination: Combination,
}

/// The named jobs of a file, and what kept others from having a name.
pub(super) struct Expansion {
    pub(super) named: Vec<Named>,
    pub(super) found: Vec<Diagnostic>,
}

/// Expands the matrix of a file.
pub(super) fn expand(file: &JobFile, job: &JobSpec, run: &RunId) -> Expansion {
    let axes: &[_] = job.matrix.as_ref().map_or(&[], |matrix| &matrix.value);
    let mut expansion = Expansion { named: Vec::new(), found: Vec::new() };
    let Some(all) = combinations(axes) else {
        let report = Diagnostic::error(Code::OutOfRange, "`matrix` has too many combinations");
        let label = format!("at most {} jobs can come of one", grouped(MAX_COMBINATIONS as u64));
        let places = job.matrix.iter().map(|matrix| matrix.place.clone());
        expansion.found.extend(places.map(|place| report.clone().at(place, label.clone())));
        return expansion;
    };
    let mut taken = BTreeSet::new();
    for combination in all {
        expansion.add(file, job, run, combination, &mut taken);
    }
    expansion
}

impl Expansion {
    /// Adds the job of one combination. `taken` holds the names so far, in lower case.
    fn add(
        &mut self,
        file: &JobFile,
        job: &JobSpec,
        run: &RunId,
        combination: Combination,
        taken: &mut BTreeSet<String>,
    ) {
        let values = combination.iter().map(|(_, value)| value.value.as_str());
        let (name, place) = match &job.name {
            None => (job_name([file.stem.as_str()].into_iter().chain(values)), head(file)),
            Some(written) => match explicit(written, &combination, run) {
                Ok(name) => (name, written.place.clone()),
                Err(faults) => {
                    self.found.extend(faults);
                    return;
                }
            },
        };
        // Only a name that values were squeezed into may get a number; a name that is the same by itself is an error.
        let name = match (&job.name, combination.is_empty()) {
            (_, true) => name,
            (None, false) => unique(&name, JobId::MAX, |name| taken.contains(&name.to_ascii_lowercase())),
            (Some(written), false) => {
                if taken.contains(&name.to_ascii_lowercase()) && self.is_repeated(written, &combination, run) {
                    let report = Diagnostic::error(Code::DuplicateName, format!("two jobs have the name `{name}`"))
                        .at(written.place.clone(), "the same for several combinations of the matrix")
                        .note(format!("for example {}", shown(&combination)))
                        .help("put every key of the matrix into the name, or leave `name` out");
                    if !self.found.iter().any(|fault| fault.at == report.at && fault.code == report.code) {
                        self.found.push(report);
                    }
                    return;
                }
                unique(&name, JobId::MAX, |name| taken.contains(&name.to_ascii_lowercase()))
            }
        };
        taken.insert(name.to_ascii_lowercase());
        match JobId::new(&name) {
            Ok(id) => self.named.push(Named { id, place, combination }),
            Err(why) => {
                let why = if name.trim().is_empty() { "a job name must not be blank".to_owned() } else { why };
                self.found.push(Diagnostic::error(Code::BadName, why).at(place, ""));
            }
        }
    }

    /// Whether an earlier combination gives the same name even before its values are made fit for names.
    fn is_repeated(&self, written: &Written<String>, combination: &Combination, run: &RunId) -> bool {
        let raw = |combination: &Combination| fill(written, &names(combination, run, str::to_owned)).ok();
        let name = raw(combination);
        uses_matrix(written) && self.named.iter().any(|other| raw(&other.combination) == name)
    }
}

/// The name that the author gave. Values of the matrix are made fit for it; where it uses none, they are put behind it.
fn explicit(written: &Written<String>, combination: &Combination, run: &RunId) -> Result<String, Vec<Diagnostic>> {
    let name = fill(written, &names(combination, run, as_name)).map_err(|faults| {
        let hint = |fault: Diagnostic| {
            if fault.message == "`job` is not defined" { fault.note("`job` is the name itself") } else { fault }
        };
        faults.into_iter().map(hint).collect::<Vec<_>>()
    })?;
    if combination.is_empty() || uses_matrix(written) || JobId::new(&name).is_err() {
        return Ok(name);
    }
    Ok(job_name([name.as_str()].into_iter().chain(combination.iter().map(|(_, value)| value.value.as_str()))))
}

fn uses_matrix(name: &Written<String>) -> bool {
    name.value.contains("matrix.")
}

/// The names that are defined in the name of a job.
fn names(combination: &Combination, run: &RunId, fit: impl Fn(&str) -> String) -> Names {
    let values = combination.iter().map(|(key, value)| (format!("matrix.{key}"), fit(&value.value)));
    Names(values.chain([("run".to_owned(), run.0.clone())]).collect())
}

/// The first line of a file that says something: what stands for the file where a key is missing.
pub(super) fn head(file: &JobFile) -> Place {
    let mut start = 0;
    for line in file.source.text().split_inclusive('\n') {
        let text = line.trim();
        if !text.is_empty() && !text.starts_with('#') {
            return Place::new(&file.source, start..start + line.trim_end().len());
        }
        start += line.len();
    }
    Place::new(&file.source, 0..0)
}
