//! A branch in one file, and what stands at its beginning.

use super::Repository;
use super::git::{ALL_FILES, Git};
use crate::process::Environment;
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// The first line of the one format that is written and read.
const SIGNATURE: &[u8] = b"# v2 git bundle\n";

/// More names and conditions than this are no work of one job, in bytes.
const HEAD_MAX: usize = 64 << 10;

impl Repository {
    /// Writes what a branch has beyond `base` to a file, for a place that has the base.
    ///
    /// The file appears whole or not at all.
    ///
    /// # Errors
    /// Says in words what git objects to.
    pub async fn write_bundle(&self, base: &str, branch: &str, file: &Path, env: &Environment) -> Result<(), String> {
        let part = file.with_extension("part");
        let (part_name, name, not_base) =
            (part.to_string_lossy().into_owned(), format!("refs/heads/{branch}"), format!("^{base}"));
        let git = Git::new(env).with("GIT_DIR", self.common_dir()).without("GIT_WORK_TREE");
        let args = ["bundle", "create", "--quiet", "--version=2", &part_name, &not_base, &name];
        git.run(self.common_dir(), &args, ALL_FILES, &CancellationToken::new()).await?;
        let renamed = std::fs::rename(&part, file);
        renamed.map_err(|error| format!("cannot write {}: {error}", file.display()))
    }
}

/// Takes the head of a bundle off: gives back the pack behind it.
///
/// # Errors
/// Says in words what is not as it should be: there must be one branch, at the commit that was told.
pub(super) fn pack_of<'a>(bundle: &'a [u8], branch: &str, commit: &str) -> Result<&'a [u8], String> {
    let Some(mut rest) = bundle.strip_prefix(SIGNATURE) else {
        return Err("it is no git bundle of version 2".into());
    };
    let mut tips = Vec::new();
    loop {
        let end = rest.iter().take(HEAD_MAX).position(|byte| *byte == b'\n');
        let Some(end) = end else { return Err("its head does not end".into()) };
        let (line, after) = (String::from_utf8_lossy(&rest[..end]).into_owned(), &rest[end + 1..]);
        rest = after;
        if line.is_empty() {
            break;
        }
        if !line.starts_with('-') {
            tips.push(line);
        }
        if bundle.len() - rest.len() > HEAD_MAX {
            return Err("its head is too long".into());
        }
    }
    match tips.as_slice() {
        [tip] if *tip == format!("{commit} refs/heads/{branch}") => Ok(rest),
        [tip] => Err(format!("it holds `{tip}`, not the branch `{branch}` at {commit}")),
        _ => Err(format!("it holds {} branches, not one", tips.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_must_name_the_one_branch() {
        let head = |lines: &str| format!("# v2 git bundle\n{lines}\nPACKxyz").into_bytes();
        let read = |bytes: &[u8]| pack_of(bytes, "b/x", "22").map(<[u8]>::to_vec);
        assert_eq!(read(&head("-11 base\n22 refs/heads/b/x\n")).unwrap(), b"PACKxyz");
        for (bytes, why) in [
            (b"PACK".to_vec(), "no git bundle"),
            (b"# v3 git bundle\n@filter=x\n".to_vec(), "no git bundle"),
            (b"# v2 git bundle\n22 refs/heads/b/x".to_vec(), "does not end"),
            (head(""), "0 branches"),
            (head("22 refs/heads/b/x\n22 refs/heads/main\n"), "2 branches"),
            (head("33 refs/heads/b/x\n"), "33 refs"),
            (head("22 refs/heads/main\n"), "refs/heads/main"),
            (head(&"-11 x\n".repeat(20_000)), "too long"),
        ] {
            let error = read(&bytes).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
