//! `report.html`: made by real runs, and opened in a real browser where there is one.
#![expect(clippy::disallowed_methods, reason = "a test stands outside the runner's doors")]

mod chromium;
mod many;

use crate::looping::{GATE, case, job, mend};
use crate::mock::{Mock, Script, text, tool};
use chromium::Chromium;
use runner::output::{Files, RunFolder, write_html};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Where pictures go when a person asks for them.
const PICTURES: &str = "RUNNER_PICTURES";

/// A generated run with its page.
fn made(count: usize) -> (TempDir, PathBuf) {
    let folder = TempDir::with_prefix("runner-it-").unwrap();
    let stats = many::make(folder.path(), count);
    let page = folder.path().join("report.html");
    let at = RunFolder::reopen(folder.path(), []).unwrap();
    write_html(&Files::default(), &at, &stats, &BTreeMap::new()).unwrap();
    (folder, page)
}

/// Says that a test had nothing to test with.
fn skipped(why: &str) {
    writeln!(std::io::stderr(), "skipped: {why}").unwrap();
}

fn keep_picture(browser: &mut Chromium, name: &str) {
    if let Some(folder) = std::env::var_os(PICTURES) {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(Path::new(&folder).join(name), browser.picture()).unwrap();
    }
}

#[test]
fn a_run_leaves_one_page_with_everything_in_it() {
    let look = tool("Bash", json!({"command": "echo '<script>alert(1)</script>'; echo $NAME"}));
    let mock = Mock::start(
        Script::default().about("mend", [look, mend(), text("Done.")]).about("give up", [text("I <b>cannot</b>.")]),
    );
    let gates = format!("description = \"puts two there\"\ntags = [\"nightly\"]\n{GATE}before = \"fail\"\n");
    let case = case(&mock, &gates).job("bad", &job(&mock, "give up", &format!("{GATE}max_blocks = 1\n")));
    let ran = case.run().expect(1);
    let page = ran.file("report.html");
    for part in [
        "1 of 2 jobs did not pass",
        "id=\"job-bad\"",
        "id=\"job-job\"",
        "data-r=\"stop_hook_prevented\"",
        "puts two there",
        "<span class=\"tag\">nightly</span>",
        "✕ fail</span> <span class=\"dim\">on the base →</span> <span class=\"passed\">✓ pass",
        "sh check.sh",
        "<ins>+two\n</ins>",
        "<h3>Time</h3>",
        "Cost and cache by turn",
        "<h3>Transcript</h3>",
        "mend a.txt",
        "I &lt;b&gt;cannot&lt;/b&gt;.",
        "<summary><b>Bash</b> <code>echo &apos;&lt;script&gt;alert(1)&lt;/script&gt;&apos;; echo $NAME</code>",
        "href=\"./jobs/job/transcript.jsonl\"",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(page.find("id=\"job-bad\"") < page.find("id=\"job-job\""), "what failed comes first");
    assert_eq!(page.matches("<script>").count(), 1);
    let own = page.replace(&mock.url(), "");
    assert!(!own.contains("http://") && !own.contains("https://") && !own.contains("src="), "it asks for something");
}

#[test]
fn the_page_holds_no_secret() {
    let show = tool(
        "Bash",
        json!({"command": "printf '%s\\n' 'sk-ant-<very>&\"secret\"-1'; echo 'sk-ant-<very>&\"secret\"-1' > a.txt"}),
    );
    let mock = Mock::start(
        Script::calls([show, text("The key is sk-ant-<very>&\"secret\"-1.")]).key("sk-ant-<very>&\"secret\"-1"),
    );
    let ran = case(&mock, "").env("ANTHROPIC_API_KEY", "sk-ant-<very>&\"secret\"-1").run();
    let page = ran.file("report.html");
    assert!(page.contains("[redacted:ANTHROPIC_API_KEY]"), "{page}");
    assert!(!page.contains("secret"), "{page}");
}

#[test]
fn five_hundred_jobs_are_one_page_that_shows_at_once_and_keys_move_through_it() {
    let (_folder, page) = made(500);
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.len() < 17 << 20, "{}", text.len());
    assert_eq!(text.matches("<details class=\"job ").count(), 500);
    if let Some(folder) = std::env::var_os(PICTURES) {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(&page, Path::new(&folder).join("report.html")).unwrap();
    }
    let Some(mut browser) = Chromium::start(1280, 900, false) else { return skipped("there is no Chromium") };
    browser.open(&page, "");
    let paint =
        browser.eval("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1").as_f64().unwrap();
    let ready = browser.eval("performance.timing.domContentLoadedEventEnd - performance.timing.navigationStart");
    let size = std::fs::metadata(&page).unwrap().len();
    writeln!(std::io::stderr(), "500 jobs: {size} bytes, first contentful paint {paint:.0} ms, ready {ready} ms")
        .unwrap();
    assert!((0.0..10_000.0).contains(&paint), "{paint}");
    keep_picture(&mut browser, "many-light.png");
    assert_eq!(browser.eval("document.querySelectorAll('noscript').length > 400"), true);

    let focused = "document.activeElement.closest('.job')?.id ?? document.activeElement.id";
    let visible = "[...document.querySelectorAll('.job')].filter(job => !job.hidden).length";
    browser.key("j");
    let first = browser.eval(focused);
    assert_eq!(first, browser.eval("document.querySelector('.job').id"));
    browser.key("j");
    browser.key("j");
    let third = browser.eval(focused);
    assert_eq!(third, browser.eval("document.querySelectorAll('.job')[2].id"));
    browser.key("k");
    assert_eq!(browser.eval(focused), browser.eval("document.querySelectorAll('.job')[1].id"));
    let open = "[...document.querySelectorAll('.job[open]')].map(job => job.id).join()";
    browser.key("Enter");
    assert_eq!(browser.eval(open), browser.eval(focused));
    keep_picture(&mut browser, "many-open.png");
    browser.key("Escape");
    assert_eq!(browser.eval(open), "");

    browser.key("/");
    assert_eq!(browser.eval("document.activeElement.id"), "find");
    for key in ["c", "a", "c", "h", "e"] {
        browser.key(key);
    }
    assert_eq!(browser.eval("document.getElementById('find').value"), "cache");
    assert_eq!(browser.eval(visible), 50);
    assert_eq!(browser.eval("document.getElementById('count').textContent"), "50 of 500 jobs");
    browser.key("Enter");
    assert!(browser.eval(focused).as_str().unwrap().starts_with("job-cache"));
    keep_picture(&mut browser, "many-found.png");
    browser.key("Escape");
    assert_eq!(browser.eval(visible), 500);

    browser.eval("document.querySelector('.chip.failed').click()");
    let failed = browser.eval(visible).as_u64().unwrap();
    assert!(failed > 5 && failed < 50, "{failed}");
    browser.eval(
        "const tag = document.getElementById('tag'); tag.value = 'weekly'; tag.dispatchEvent(new Event('change'))",
    );
    assert!(browser.eval(visible).as_u64().unwrap() < failed);
    browser.eval(
        "const order = document.getElementById('order'); order.value = '0'; order.dispatchEvent(new Event('change'))",
    );
    browser.key("Escape");
    browser.eval("document.activeElement.blur()");
    assert_eq!(browser.eval(visible), 500);
    let costs = "[...document.querySelectorAll('.job')].map(job => +job.dataset.n.split(' ')[0])";
    assert_eq!(browser.eval(&format!("{costs}.every((cost, at, all) => at === 0 || all[at - 1] >= cost)")), true);

    browser.open(&page, "#job-diff-fix-panic-on-empty-input");
    assert_eq!(browser.eval(open), "job-diff-fix-panic-on-empty-input");
    assert_eq!(browser.eval("document.querySelectorAll('.job[open] > .body .talk').length"), 3);
    assert_eq!(browser.complaints, [""; 0]);
    let outside: Vec<&String> =
        browser.requests.iter().filter(|url| !url.starts_with("file://") && !url.starts_with("data:,")).collect();
    assert_eq!(outside, [""; 0]);
}

#[test]
fn it_is_readable_small_dark_and_on_a_phone() {
    let (_folder, page) = made(24);
    for (name, width, dark) in
        [("small-light.png", 1280, false), ("small-dark.png", 1280, true), ("phone.png", 390, false)]
    {
        let Some(mut browser) = Chromium::start(width, 900, dark) else { return skipped("there is no Chromium") };
        browser.open(&page, "");
        assert_eq!(
            browser.eval("document.documentElement.scrollWidth <= innerWidth"),
            true,
            "{name}: it scrolls sideways"
        );
        keep_picture(&mut browser, name);
        browser.key("j");
        browser.key("Enter");
        browser.eval("document.activeElement.scrollIntoView()");
        assert_eq!(
            browser.eval("document.documentElement.scrollWidth <= innerWidth"),
            true,
            "{name}: an open job scrolls sideways"
        );
        keep_picture(&mut browser, &name.replace(".png", "-open.png"));
        browser.eval("for (const at of document.querySelectorAll('.job[open] details.talk')) at.open = true; document.querySelector('.job[open] details.talk').scrollIntoView()");
        keep_picture(&mut browser, &name.replace(".png", "-talk.png"));
        assert_eq!(browser.complaints, [""; 0]);
    }
}

#[test]
fn without_scripts_everything_can_be_read() {
    let Some(mut browser) = Chromium::start(1280, 900, false) else { return skipped("there is no Chromium") };
    let (_folder, page) = made(24);
    browser.without_scripts();
    // Turns, transcript and facts of each job.
    assert_eq!(browser.count_in(&page, ".job .body > .talk", 72), 72);
}

/// The picture in the documentation: `RUNNER_PICTURES=target/pictures cargo test --test it html::`, then look, then copy `report.png`.
#[test]
fn a_small_run_for_the_documentation() {
    let (_folder, page) = made(12);
    let Some(mut browser) = Chromium::start(1200, 1240, false) else { return skipped("there is no Chromium") };
    browser.open(&page, "");
    browser.key("j");
    browser.key("Enter");
    browser.eval("document.activeElement.blur(), scrollTo(0, 0)");
    assert_eq!(browser.eval("document.querySelectorAll('.job[open]').length"), 1);
    keep_picture(&mut browser, "report.png");
}

/// What a hostile job would do, were it let: the flag stays unset, and nothing is asked for.
#[test]
fn hostile_text_does_nothing_in_a_browser() {
    let evil = "</script></pre></details><script>window.owned=1</script><img src=x onerror=\"window.owned=1\"><svg onload=window.owned=1>\u{1b}[31m\u{202e}";
    let write = tool("Write", json!({"file_path": "<img src=x onerror=owned=1>.txt", "content": evil}));
    let mock = Mock::start(Script::each([
        write.tool("Bash", json!({"command": format!("cat <<'END'\n{evil}\nEND\nexit 3"), "description": evil})),
        text(evil),
    ]));
    let keys = "description = \"<script>owned=1</script>\"\ntags = [\"<i>\", \"\\\" onfocus=owned=1 x=\\\"\"]\n";
    let gate = "\n[[stop_hooks]]\nrun = \"cat '<img src=x onerror=owned=1>.txt'; exit 1\"\nmax_blocks = 1\n";
    // What failed is in the page from the start, what passed when it is opened.
    let case = case(&mock, &format!("{keys}{gate}")).job("good", &job(&mock, "mend it", keys));
    let ran = case.run().expect(1);
    let page = ran.file("report.html");
    assert_eq!(ran.ending("good"), "passed completed completed");
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("<noscript>").count(), 1);
    assert!(!page.contains("<img") && !page.contains("<svg onload") && !page.contains(['\u{1b}', '\u{202e}']));
    let Some(mut browser) = Chromium::start(1280, 900, false) else { return skipped("there is no Chromium") };
    browser.open(&ran.folder.as_ref().unwrap().join("report.html"), "");
    browser.eval("for (const at of document.querySelectorAll('details')) at.open = true");
    browser.eval("new Promise(done => setTimeout(done, 100))");
    browser.eval("for (const at of document.querySelectorAll('details')) at.open = true");
    assert_eq!(browser.eval("document.querySelectorAll('.body').length"), 2);
    assert_eq!(browser.eval("document.body.textContent.split('owned=1').length > 20"), true);
    assert_eq!(browser.eval("typeof window.owned"), "undefined");
    assert_eq!(browser.eval("document.scripts.length"), 1);
    assert_eq!(browser.eval("[...document.querySelectorAll('*')].every(at => at.getAttributeNames().every(name => !name.startsWith('on')))"), true);
    assert_eq!(browser.complaints, [""; 0]);
}
