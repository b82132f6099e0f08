use super::*;
use crate::event::RunInfo;
use crate::model::{Http, Timeouts};
use crate::output::SinkSettings;
use crate::plan::{Course, Keep, Limits, ModelPlan, OnPass, Provider, PublishPlan, Source, WorktreePlan};
use crate::query::Patience;
use crate::report::paint::{ColorChoice, Tty};
use crate::units::{JobId, RunId, Tokens, Turns};
use std::path::Path;

/// A job that nothing is known of but its name.
fn job(name: &str) -> PlannedJob {
    PlannedJob {
        hooks: Vec::new(),
        tool_hooks: Vec::new(),
        course: Course::default(),
        publish: PublishPlan { on_pass: OnPass::None, commit_message: None, author: None },
        id: JobId::new(name).unwrap(),
        file: "a.toml".into(),
        stem: "a".into(),
        description: String::new(),
        prompt: "x".into(),
        follow_ups: Vec::new(),
        limits: Limits {
            keep_working: false,
            task_budget: None,
            loop_limit: 12,
            max_turns: Turns(1),
            token_budget: Tokens(1),
            max_cost: None,
            timeout: Duration::from_mins(1),
        },
        tags: Vec::new(),
        protect: Vec::new(),
        require_changes: false,
        context_files: Vec::new(),
        matrix: BTreeMap::new(),
        model: ModelPlan {
            binds_thinking: false,
            fallback: None,
            small: None,
            provider: Provider::Replay { cassette: "none".into() },
            name: "m".into(),
            max_output: Tokens(1),
            escalated_output: None,
            thinking: None,
            context_window: Tokens(1),
            prices: None,
        },
        source: Source::Fixture("none".into()),
        worktree: WorktreePlan {
            base: "HEAD".into(),
            branch: "b".into(),
            setup: Vec::new(),
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            keep: Keep::Never,
        },
        gates: Vec::new(),
    }
}

fn dispatcher(folder: &Path, jobs: Vec<PlannedJob>) -> (Dispatcher, RunInfo) {
    let clock = super::super::clock::Clock::start();
    let info = RunInfo {
        id: RunId("run".into()),
        started_at: clock.started_at(),
        folder: folder.join("run"),
        shown_folder: "run".into(),
        jobs: jobs.iter().map(PlannedJob::info).collect(),
        slots: 2,
        version: "0".into(),
    };
    let tty = Tty { is_terminal: false, no_color: true, clicolor_force: false, dumb: true };
    let sink = Sink::open(SinkSettings {
        run: info.clone(),
        git_dir: None,
        goes_on: false,
        settings: BTreeMap::new(),
        plan: serde_json::Value::Null,
        junit_extra: None,
        events_extra: None,
        format: crate::output::Format::Plain,
        detail: crate::report::plain::Detail::Quiet,
        color: ColorChoice::Never,
        stdout: tty,
        stderr: tty,
        width: None,
        github: None,
        secrets: Vec::new(),
    })
    .unwrap();
    let context = RunContext {
        run: info.id.clone(),
        folder: info.folder.clone(),
        files: sink.files().clone(),
        worktrees: folder.join("worktrees"),
        env: BTreeMap::new(),
        key_names: Vec::new(),
        making: tokio::sync::Semaphore::new(2),
        clock,
        http: Arc::new(Http::new(Http::CONNECT, "test")),
        publishing: crate::drive::publishing::Publishing::default(),
        timeouts: Timeouts::default(),
        patience: Patience::default(),
    };
    (
        Dispatcher::new(
            Batch { jobs, slots: 2, limits: RunLimits::default(), before: BTreeMap::new(), notes: Vec::new() },
            context,
            sink,
        ),
        info,
    )
}

/// A job that fails by itself, since its fixture is not there, beside one whose task panics.
#[tokio::test]
async fn a_panic_is_the_outcome_of_that_job_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (mut dispatcher, _) = dispatcher(folder.path(), vec![job("fails"), job("panics")]);
    dispatcher.scheduler.step(Input::Start);
    let worktree = dispatcher.context.place(&dispatcher.jobs[1], 1).worktree;
    std::fs::create_dir_all(&worktree).unwrap();
    let attempt = |job| Attempt { job, number: 1 };
    dispatcher.start(attempt(0));
    dispatcher.spawn(attempt(1), async { panic!("out of cheese") });
    dispatcher.listen(&mut Signals::listen().unwrap()).await;
    assert_eq!(ExitStatus::of(dispatcher.verdicts.iter().copied()), ExitStatus::Error);
    assert!(dispatcher.sink.finish().is_empty());
    let result = |job: &str| -> serde_json::Value {
        let path = folder.path().join(format!("run/jobs/{job}/result.json"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    assert_eq!(result("fails")["reason"], "worktree_failed");
    let panicked = result("panics");
    assert_eq!((panicked["verdict"].as_str(), panicked["reason"].as_str()), (Some("error"), Some("internal")));
    assert!(panicked["message"].as_str().unwrap().contains("out of cheese"));
    assert_eq!(panicked["worktree"].as_str(), worktree.to_str());
}
