//! `report.html`: reads what a run has left of each job, and writes the page.

use super::file::Files;
use super::folder::RunFolder;
use crate::error::Result;
use crate::report::html::{MAX, Page, Tapes};
use crate::report::tally::RunStats;
use crate::units::JobId;
use std::collections::{BTreeMap, BTreeSet};
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

/// Writes the page of a run into its folder, from what lies in there. `told_in` names the folders of the runs whose `events.jsonl` tells
/// of a job, where that is another one: in a run that was merged from others.
///
/// # Errors
/// The page cannot be written. What cannot be read is left out.
pub fn write_html(
    files: &Files,
    folder: &RunFolder,
    stats: &RunStats,
    told_in: &BTreeMap<JobId, PathBuf>,
) -> Result<()> {
    let run_of = |job: &JobId| told_in.get(job).map_or_else(|| folder.path(), PathBuf::as_path);
    let mut tapes = Tapes::default();
    let runs: BTreeSet<&Path> = stats.jobs.iter().map(|job| run_of(&job.info.id)).collect();
    for run in runs {
        // A secret is taken out of each line before it is cut, as what is left of a cut one would not be known.
        each_line(&run.join("events.jsonl"), |line| tapes.apply(&files.redacted(line), |job| run_of(job) == run));
    }
    let mut page = Page::new(stats, tapes, MAX, |job| folder.job(job).is_dir());
    while let Some(place) = page.next_place() {
        let job = page.job(place);
        let (changes, unread) = patch(&folder.patch(job)).unwrap_or_default();
        let mut talk = page.talk(place);
        if let Some(talk) = &mut talk {
            each_line(&folder.transcript(job), |line| talk.apply(&files.redacted(line)));
        }
        page.fill(place, &files.redacted(&changes), unread, talk);
    }
    files.replace(&folder.file("report.html"), &page.finish())
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
