//! Resolves `[publish]`.

use super::job::{OnPass, PublishPlan};
use super::scope::Scope;
use crate::spec::{Code, Diagnostic, JobSpec, PassWord};

/// What happens to the work of a job once it has passed.
pub(super) fn publish(scope: &mut Scope<'_>, job: &JobSpec) -> Option<PublishPlan> {
    let spec = &job.publish;
    let written = spec.on_pass.as_ref()?;
    let on_pass = match written.value {
        PassWord::None => OnPass::None,
        PassWord::Branch => OnPass::Branch,
        PassWord::Push => OnPass::Push,
        PassWord::PullRequest => OnPass::PullRequest,
    };
    if matches!(on_pass, OnPass::Push | OnPass::PullRequest) && job.worktree.fixture.is_some() {
        scope.report(
            Diagnostic::error(Code::Conflict, "a fixture has nowhere to be pushed to")
                .at(written.place.clone(), "needs a repository with a remote")
                .help("for example: on_pass = \"branch\""),
        );
        return None;
    }
    let message = spec.commit_message.as_ref().map(|text| scope.fill(text));
    let author = spec.author.as_ref().map(|text| scope.fill(text));
    let author = match author {
        Some(Some(author)) if !is_author(&author.value) => {
            scope.report(
                Diagnostic::error(Code::BadValue, format!("{:?} is no author", author.value))
                    .at(author.place, "")
                    .help("for example: author = \"Build Bot <bot@example.org>\""),
            );
            None
        }
        author => author,
    };
    let (commit_message, author) = match (message, author) {
        (Some(None), _) | (_, Some(None)) => return None,
        (message, author) => (message.flatten(), author.flatten()),
    };
    // A bad author was reported above.
    if author.is_none() && spec.author.is_some() {
        return None;
    }
    Some(PublishPlan {
        on_pass,
        commit_message: commit_message.map(|text| text.value),
        author: author.map(|text| text.value),
    })
}

/// `Name <address>`, as git takes it.
fn is_author(text: &str) -> bool {
    let parts = text.trim().strip_suffix('>').and_then(|rest| rest.split_once('<'));
    parts.is_some_and(|(name, address)| {
        let clean = |part: &str| !part.contains(['<', '>']) && !part.contains(char::is_control);
        !name.trim().is_empty() && !address.trim().is_empty() && clean(name) && clean(address)
    })
}

#[cfg(test)]
mod tests {
    use super::is_author;

    #[test]
    fn an_author_has_a_name_and_an_address() {
        assert!(is_author("Build Bot <bot@example.org>"));
        for bad in ["Bot", "<bot@x>", "Bot <>", "Bot <a> <b>", "Bot <a\nb>", "Bot bot@x"] {
            assert!(!is_author(bad), "{bad}");
        }
    }
}
