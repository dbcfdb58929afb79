//! The guide of docs/install.md, typed as a new user types it, on a cluster without Muster.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::node::start::install;
use crate::sandbox::Sandbox;

// Not every test reads pages as a whole.
#[allow(dead_code)]
#[path = "../../../docs/page.rs"]
mod page;

use page::{Page, Typed, pages, root, shows};

/// What its heading promises.
const MINUTES: Duration = Duration::from_secs(5 * 60);

/// What cannot be typed here, by how it begins.
const ELSEWHERE: [(&str, &str); 4] = [
    (
        "docker build ",
        "no registry has the base image; the same steps have built it",
    ),
    ("cargo install ", "the program is built"),
    ("kind ", "the cluster is there, and the image is in it"),
    (
        "kubectl apply --server-side -f https://",
        "no network; the same manifests of JobSet are applied",
    ),
];

pub async fn the_guide_leads_to_a_running_gang_in_five_minutes(sandbox: Sandbox) -> Result<()> {
    let pages = pages();
    let page = pages.iter().find(|page| page.name() == "docs/install.md");
    let guide = page.context("no page")?.section("Five minutes");
    let dir = tempfile::tempdir()?;
    let reader = Reader::new(&sandbox, dir.path())?;
    // As on a cluster that never had Muster: the guide ends with its removal, which here need not wait
    // until both replicas have ended as they should.
    let now = "delete deployments,pods --all --namespace=muster-system --grace-period=0 --force";
    let now: Vec<&str> = now.split(' ').collect();
    sandbox.kubectl(&now, "").await?;
    for typed in guide.typed().last().context("the guide is empty")? {
        reader.types(typed).await?;
    }
    let followed = reader.follows(&guide).await;
    install(&sandbox.cluster.plane, &sandbox.cluster.objects).await?;
    let took = followed?;
    ensure!(took < MINUTES, "it took {took:?}");
    Ok(())
}

/// Somebody at a terminal, in the checkout.
struct Reader<'a> {
    sandbox: &'a Sandbox,
    home: &'a Path,
}

impl<'a> Reader<'a> {
    /// With kubectl and Muster in the path, and nothing in the home.
    fn new(sandbox: &'a Sandbox, home: &'a Path) -> Result<Reader<'a>> {
        let kubectl = sandbox.cluster.plane.components().path("kubectl")?;
        symlink(kubectl, home.join("kubectl"))?;
        symlink(env!("CARGO_BIN_EXE_muster"), home.join("muster"))?;
        Ok(Reader { sandbox, home })
    }

    /// Types every command, and returns how long they took.
    async fn follows(&self, guide: &Page) -> Result<Duration> {
        let (mut count, mut took) = (0, Duration::ZERO);
        for typed in guide.typed().iter().flatten() {
            if let Some(time) = self.types(typed).await? {
                count += 1;
                took += time;
            }
        }
        ensure!(count >= 10, "the guide has only {count} commands");
        println!(
            "the guide of docs/install.md: {count} commands in {:.0} s",
            took.as_secs_f64()
        );
        Ok(took)
    }

    /// How long it took, unless it is for elsewhere.
    async fn types(&self, typed: &Typed) -> Result<Option<Duration>> {
        let text = &typed.command;
        let mut elsewhere = ELSEWHERE.iter();
        if let Some((_, why)) = elsewhere.find(|(begin, _)| text.starts_with(begin)) {
            println!("  not typed: {text} ({why})");
            return Ok(None);
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec 2>&1; {text}")])
            .current_dir(root())
            .env("HOME", self.home)
            .env("PATH", format!("{}:{path}", self.home.display()))
            .env("KUBECONFIG", &self.sandbox.cluster.plane.kubeconfig)
            .env("COLUMNS", "200");
        let start = Instant::now();
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let took = start.elapsed();
        let printed = String::from_utf8(output.stdout)?;
        println!("  {text} ({:.1} s)", took.as_secs_f64());
        let shown = typed.shown.as_deref().unwrap_or_default();
        let refused = shown.contains(" is invalid:\n");
        ensure!(output.status.success() != refused, "{text}: {printed}");
        let differs = |differs| anyhow!("{text}: {differs}");
        shows(&steady(shown), &steady(&printed)).map_err(differs)?;
        Ok(Some(took))
    }
}

/// Without what is different each time: how old something is, how its name ends, and how wide a column
/// is because of that.
fn steady(text: &str) -> String {
    let mut steady = String::new();
    for line in text.lines() {
        let words: Vec<String> = line.split_whitespace().map(steady_word).collect();
        steady += &words.join(" ");
        steady += "\n";
    }
    steady
}

fn steady_word(word: &str) -> String {
    let is_age = |text: &str| {
        let mut parts = text.split_inclusive(['s', 'm', 'h']);
        let number = |part: &str| {
            let digits = part.strip_suffix(['s', 'm', 'h']).unwrap_or_default();
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        !text.is_empty() && parts.all(number)
    };
    if is_age(word) {
        return "AGE".to_owned();
    }
    // Kubernetes draws five characters, Muster ten.
    match word.rsplit_once('-') {
        Some((start, end)) if [5, 10].contains(&end.len()) => format!("{start}-DRAWN"),
        _ => word.to_owned(),
    }
}
