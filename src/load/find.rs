//! Finds the job files that were named: files, folders, globs.

use crate::error::{Error, Kind};
use ignore::WalkBuilder;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What is run when nothing is named.
pub(super) const DEFAULT: &str = "jobs/*.toml";

/// The file of settings: never a job, unless somebody names it.
pub(super) const SETTINGS: &str = "runner.toml";

/// A job file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A file: its path as the person would say it, and from the root.
    File { shown: String, path: PathBuf },
    /// Standard input.
    Input,
}

/// The files that were named, in the order in which they were named, those of one folder or glob sorted. A file that is
/// named twice is taken once.
///
/// # Errors
/// A named file is not there, or a folder or glob holds no job.
pub(super) fn find(named: &[String], cwd: &Path) -> Result<Vec<Found>, Error> {
    let default = [DEFAULT.to_owned()];
    let patterns = if named.is_empty() { &default } else { named };
    let mut all: Vec<Found> = Vec::new();
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    for pattern in patterns {
        if pattern == "-" {
            if !all.contains(&Found::Input) {
                all.push(Found::Input);
            }
            continue;
        }
        for shown in matches(pattern, cwd)? {
            let path = cwd.join(&shown);
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            if seen.insert(real) {
                all.push(Found::File { shown, path });
            }
        }
    }
    Ok(all)
}

/// The files that one argument stands for.
fn matches(pattern: &str, cwd: &Path) -> Result<Vec<String>, Error> {
    let path = cwd.join(pattern);
    if path.is_dir() {
        return folder(pattern, &path);
    }
    if path.exists() {
        return Ok(vec![pattern.to_owned()]);
    }
    if !pattern.contains(['*', '?', '[', '{']) {
        let error = Error::usage(format!("there is no job file {pattern}"));
        let with_end = format!("{pattern}.toml");
        return Err(if cwd.join(&with_end).is_file() { error.hint(format!("there is {with_end}")) } else { error });
    }
    let files = glob(pattern, cwd)?;
    if files.is_empty() {
        let error = Error::new(Kind::NoJobs, format!("no job file matches {pattern}"));
        return Err(match pattern {
            DEFAULT => error.hint("name the job files, or give a task with --prompt"),
            _ => error,
        });
    }
    Ok(files)
}

/// The job files right inside of a folder.
fn folder(shown: &str, path: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| Error::io("read the folder", Path::new(shown), &error))? {
        let entry = entry.map_err(|error| Error::io("read the folder", Path::new(shown), &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_job = Path::new(&name).extension().is_some_and(|end| end == "toml");
        if is_job && name != SETTINGS && !name.starts_with('.') && entry.path().is_file() {
            names.push(Path::new(shown).join(name).display().to_string());
        }
    }
    if names.is_empty() {
        return Err(Error::new(Kind::NoJobs, format!("the folder {shown} holds no job file (*.toml)")));
    }
    names.sort();
    Ok(names)
}

/// The files that a glob matches. Hidden ones only where the glob names them.
fn glob(pattern: &str, cwd: &Path) -> Result<Vec<String>, Error> {
    let plain = pattern.strip_prefix("./").unwrap_or(pattern);
    let matcher = globset::GlobBuilder::new(plain)
        .literal_separator(true)
        .build()
        .map_err(|error| Error::usage(format!("{pattern} is not a glob")).because(error.kind().to_string()))?
        .compile_matcher();
    // The walk begins where the pattern stops being plain, and goes no deeper than the pattern can match.
    let parts: Vec<&str> = plain.split('/').collect();
    let fixed = parts.iter().take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).count();
    let base = parts[..fixed.min(parts.len() - 1)].join("/");
    let base = if base.is_empty() && plain.starts_with('/') { "/" } else { base.as_str() };
    let start = cwd.join(base);
    if !start.is_dir() {
        return Ok(Vec::new());
    }
    let hidden = plain.starts_with('.') || plain.contains("/.");
    let unbounded = plain.contains("**") || plain.contains('{');
    let depth = (!unbounded).then_some(parts.len() - fixed.min(parts.len() - 1));
    let walk =
        WalkBuilder::new(&start).standard_filters(false).hidden(!hidden).follow_links(true).max_depth(depth).build();
    let mut files = Vec::new();
    for entry in walk.filter_map(Result::ok).filter(|entry| entry.path().is_file()) {
        let path = entry.path();
        let shown = path.strip_prefix(cwd).unwrap_or(path);
        let shown = if plain.starts_with('/') { path } else { shown };
        if matcher.is_match(shown) && !path.ends_with(SETTINGS) {
            files.push(shown.display().to_string());
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn shop() -> tempfile::TempDir {
        let shop = tempfile::tempdir().unwrap();
        for file in [
            "jobs/b.toml",
            "jobs/a.toml",
            "jobs/x.md",
            "jobs/.hidden.toml",
            "jobs/deep/c.toml",
            "jobs/runner.toml",
            "one.toml",
        ] {
            let path = shop.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::create_dir(shop.path().join("empty")).unwrap();
        shop
    }

    fn shown(named: &[&str]) -> Result<Vec<String>, (Kind, String)> {
        let shop = shop();
        let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        let found = find(&named, shop.path()).map_err(|error| (error.kind(), error.to_string()))?;
        Ok(found
            .into_iter()
            .map(|found| match found {
                Found::File { shown, .. } => shown,
                Found::Input => "-".into(),
            })
            .collect())
    }

    #[test]
    fn files_folders_and_globs() {
        assert_eq!(shown(&["jobs"]).unwrap(), ["jobs/a.toml", "jobs/b.toml"]);
        assert_eq!(shown(&[]).unwrap(), ["jobs/a.toml", "jobs/b.toml"]);
        assert_eq!(shown(&["./jobs/?.toml"]).unwrap(), ["jobs/a.toml", "jobs/b.toml"]);
        assert_eq!(shown(&["**/c.toml"]).unwrap(), ["jobs/deep/c.toml"]);
        assert_eq!(shown(&["jobs/{a,deep/c}.toml"]).unwrap(), ["jobs/a.toml", "jobs/deep/c.toml"]);
        assert_eq!(shown(&["jobs/.h*"]).unwrap(), ["jobs/.hidden.toml"]);
        assert_eq!(
            shown(&["one.toml", "-", "jobs/a.toml", "./one.toml", "jobs", "-"]).unwrap(),
            ["one.toml", "-", "jobs/a.toml", "jobs/b.toml"]
        );
    }

    #[test]
    fn nothing_found_is_an_error_of_its_own_kind() {
        assert_eq!(shown(&["no.toml"]).unwrap_err().0, Kind::Usage);
        assert_eq!(shown(&["jobs/z*.toml"]).unwrap_err().0, Kind::NoJobs);
        assert_eq!(shown(&["none/*.toml"]).unwrap_err().0, Kind::NoJobs);
        assert_eq!(shown(&["empty"]).unwrap_err().0, Kind::NoJobs);
        assert_eq!(shown(&["jobs/[.toml"]).unwrap_err().0, Kind::Usage);
    }

    #[test]
    fn an_absolute_glob_works_too() {
        let shop = shop();
        let pattern = shop.path().join("jobs/a*.toml").display().to_string();
        let found = find(&[pattern], Path::new("/")).unwrap();
        assert_eq!(found.len(), 1);
    }
}
