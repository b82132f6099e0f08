//! `report.html`: reads what a run has left of each job, and writes the page.

use super::file::Files;
use crate::error::Result;
use crate::report::html::{MAX, Page, Tapes, address};
use crate::report::tally::RunStats;
use crate::units::JobId;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A longer line is passed over: it holds images, or no run has written it.
const LINE_MAX: u64 = 16 << 20;
/// What is read of the beginning of a transcript that is too long to be read whole.
const BEGINNING: u64 = 4 << 20;
/// What is read of its end.
const END: u64 = 24 << 20;
/// What is read of a patch.
const PATCH_MAX: u64 = 4 << 20;

/// Writes the page for a run to `path`. `run_of` gives the folder of the run that holds a job's files: that run's `events.jsonl` and
/// `jobs/<job>/` are read, as far as they are there.
///
/// # Errors
/// The page cannot be written. What cannot be read is left out.
pub fn write_html(
    files: &Files,
    path: &Path,
    stats: &RunStats,
    run_of: impl Fn(&JobId) -> Option<PathBuf>,
) -> Result<()> {
    let mut tapes = Tapes::default();
    let folders: BTreeSet<PathBuf> = stats.jobs.iter().filter_map(|job| run_of(&job.info.id)).collect();
    for folder in &folders {
        // A secret is taken out of each line before it is cut, as what is left of a cut one would not be known.
        each_line(&folder.join("events.jsonl"), |line| {
            tapes.apply(&files.redacted(line), |job| run_of(job).as_ref() == Some(folder));
        });
    }
    let job_folder = |job: &JobId| run_of(job).map(|folder| folder.join("jobs").join(job.as_str()));
    let beside = path.parent().unwrap_or(Path::new(""));
    let link = |job: &JobId| {
        let folder = job_folder(job).filter(|folder| folder.is_dir())?;
        let below = folder.strip_prefix(beside).ok()?;
        below.iter().map(|part| part.to_str()).collect::<Option<Vec<_>>>().map(|parts| address(parts.into_iter()))
    };
    let mut page = Page::new(stats, tapes, MAX, link);
    while let Some(place) = page.next_place() {
        let Some(folder) = job_folder(page.job(place)) else { continue };
        let (changes, unread) = patch(&folder.join("diff.patch")).unwrap_or_default();
        let mut talk = page.talk(place);
        if let Some(talk) = &mut talk {
            each_line(&folder.join("transcript.jsonl"), |line| talk.apply(&files.redacted(line)));
        }
        page.fill(place, &files.redacted(&changes), unread, talk);
    }
    files.replace(path, &page.finish())
}

/// The beginning of a patch, in whole lines, and how many bytes follow.
fn patch(path: &Path) -> io::Result<(String, usize)> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(PATCH_MAX).read_to_end(&mut bytes)?;
    let unread = size.saturating_sub(bytes.len() as u64);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), usize::try_from(unread).unwrap_or(usize::MAX)))
}

/// Hands over the lines of a file. What is not there, or cannot be read, has none.
fn each_line(path: &Path, mut take: impl FnMut(&str)) {
    let mut read = || {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        if size <= BEGINNING + END || path.ends_with("events.jsonl") {
            return lines(BufReader::new(file), &mut take);
        }
        lines(BufReader::new((&file).take(BEGINNING)), &mut take)?;
        file.seek(SeekFrom::Start(size - END))?;
        lines(BufReader::new(file), &mut take)
    };
    drop(read());
}

fn lines(mut reader: impl BufRead, take: &mut impl FnMut(&str)) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        take(String::from_utf8_lossy(&line).trim_end());
    }
}
