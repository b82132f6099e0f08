//! The files that publishing leaves: `publish.json` says what a job wants to have published, `published.json` what was.

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// The version of both files.
pub(super) const SCHEMA: u32 = 1;

/// `publish.json`: what is to be published, and what it is checked by. Written by the run, and trusted by nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishFile {
    /// The version of the format, 1.
    pub schema: u32,
    /// The runner's version.
    pub runner: String,
    /// The run's name.
    pub run: String,
    /// The job's name.
    pub job: String,
    /// `push` or `pull-request`.
    pub on_pass: String,
    /// The job's verdict.
    pub verdict: String,
    /// The job's reason.
    pub reason: String,
    /// The commit that the work stands on.
    pub base: String,
    /// The commit that holds the work.
    pub commit: String,
    /// The branch that it is pushed to.
    pub branch: String,
    /// Where the remote led when the run began, without any password. For people: it is never pushed to because it stands here.
    pub remote: String,
    /// The branch that a pull request is made against; `null`: the repository's default.
    pub target: Option<String>,
    /// What was asked of the model; cut off where it is very long.
    pub asked: String,
    /// SHA-256 of `work.bundle`, in hexadecimal.
    pub bundle_sha256: String,
    /// SHA-256 of `diff.patch`, in hexadecimal.
    pub patch_sha256: String,
}

/// `published.json`: what was published. The same when it is done twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The version of the format, 1.
    pub schema: u32,
    /// The run's name.
    pub run: String,
    /// The job's name.
    pub job: String,
    /// Where it was pushed to, without any password.
    pub remote: String,
    /// The branch that was pushed.
    pub branch: String,
    /// The commit that it is at.
    pub commit: String,
    /// The pull request, where one was wanted.
    pub pull_request: Option<PullRequest>,
}

/// A pull request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    /// Its number.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// Whether it is a draft.
    pub draft: bool,
}

/// SHA-256 in lower-case hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    let digits = digest.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// The text of a file, ended by a newline.
pub(super) fn text<T: Serialize>(value: &T) -> String {
    // Only maps with keys that are no text cannot be written; there are none.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_sha256sum() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
