//! What the chart renders, held against `kubectl kustomize`, object by object.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use walkdir::WalkDir;

use crate::helm::{CHART, Helm, Rendered, is_hook, kustomize};
use crate::install::NAMESPACE;
use crate::sandbox::Sandbox;

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests");

/// Overlays that change the base, and the values that do the same, in the order of a kustomization.
const OVERLAYS: [(&str, &[&str]); 4] = [
    ("cert-manager", &["certManager.enabled=true"]),
    ("all-leaderworkersets", &["leaderWorkerSets=all"]),
    ("host-network", &["hostNetwork=true"]),
    (
        "network-policy",
        &[
            "networkPolicy.enabled=true",
            "networkPolicy.controlPlane={192.0.2.0/24}",
        ],
    ),
];

/// Those that stand beside any installation.
const BESIDE: [(&str, &str); 2] = [
    ("monitoring", "monitoring.enabled=true"),
    ("policies", "policies.enabled=true"),
];

/// `kubectl delete -k` removes them with the namespace; a release has to name them.
const KEPT: [(&str, &str); 3] = [
    ("Lease", "muster"),
    ("Secret", "muster-ca"),
    ("Secret", "muster-seal"),
];

fn set(values: &[&'static str]) -> Vec<&'static str> {
    values.iter().flat_map(|value| ["--set", value]).collect()
}

/// The chart's objects as a kustomization has them.
fn without_its_own(mut chart: Rendered) -> Result<Rendered> {
    chart.retain(|_, object| !is_hook(object));
    for (kind, name) in KEPT {
        let id = (kind.to_owned(), NAMESPACE.to_owned(), name.to_owned());
        if let Some(kept) = chart.remove(&id) {
            // Muster fills them: what the chart said would be put back at every upgrade.
            let fields: Vec<&String> = kept
                .as_object()
                .into_iter()
                .flat_map(|o| o.keys())
                .collect();
            ensure!(fields == ["apiVersion", "kind", "metadata"], "{kept}");
        } else {
            // cert-manager keeps the CA.
            ensure!(name == "muster-ca", "{id:?} is not rendered");
        }
    }
    Ok(chart)
}

/// Helm has made the namespace before it renders anything.
fn without_namespace(mut rendered: Rendered) -> Result<Rendered> {
    let namespace = ("Namespace".to_owned(), String::new(), NAMESPACE.to_owned());
    ensure!(rendered.remove(&namespace).is_some(), "no namespace");
    Ok(rendered)
}

fn same(chart: &Rendered, kustomized: &Rendered, what: &str) -> Result<()> {
    let names = |rendered: &Rendered| rendered.keys().cloned().collect::<Vec<_>>();
    equal(
        &json!(names(kustomized)),
        &json!(names(chart)),
        &format!("the objects of {what}"),
    )?;
    for (id, object) in kustomized {
        equal(object, &chart[id], &format!("{id:?} of {what}"))?;
    }
    Ok(())
}

fn equal(expected: &Value, is: &Value, what: &str) -> Result<()> {
    let text = |value| serde_json::to_string_pretty(value);
    let (expected, is) = (text(expected)?, text(is)?);
    let diff = similar::TextDiff::from_lines(&expected, &is);
    let diff = diff.unified_diff().context_radius(4).to_string();
    ensure!(
        expected == is,
        "{what}: kustomize has -, helm has +\n{diff}"
    );
    Ok(())
}

/// Writes a kustomization of these components, as docs/install.md has it.
fn write_kustomization(dir: &Path, components: &[&str]) -> Result<()> {
    // Kustomize takes no absolute path.
    let up: String = dir.components().skip(1).map(|_| "../").collect();
    let manifests = format!("{up}{}", MANIFESTS.trim_start_matches('/'));
    let components = components
        .iter()
        .map(|name| format!("{manifests}/{name}/component"));
    let text = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [format!("{manifests}/base")],
        "components": components.collect::<Vec<_>>(),
    });
    fs::write(dir.join("kustomization.yaml"), text.to_string())?;
    Ok(())
}

pub async fn every_combination_of_overlays_is_what_the_chart_renders(
    sandbox: Sandbox,
) -> Result<()> {
    let components = sandbox.cluster.plane.components();
    let helm = Helm::new(components)?;
    let mut beside = Vec::new();
    for (folder, value) in BESIDE {
        let rendered = kustomize(components, &Path::new(MANIFESTS).join(folder))?;
        beside.push((rendered, value));
    }
    let mut compared = 0;
    for choice in 0..1 << OVERLAYS.len() {
        let chosen = OVERLAYS.iter().enumerate();
        let chosen = chosen.filter(|(at, _)| choice & (1 << at) != 0);
        let chosen: Vec<_> = chosen.map(|(_, overlay)| *overlay).collect();
        let names: Vec<&str> = chosen.iter().map(|(name, _)| *name).collect();
        let values: Vec<&str> = chosen
            .iter()
            .flat_map(|(_, values)| *values)
            .copied()
            .collect();
        if names.ends_with(&["host-network", "network-policy"]) {
            let said =
                helm.refused(&[&["template", "muster", CHART][..], &set(&values)].concat())?;
            ensure!(said.contains("exclude each other"), "{said}");
            continue;
        }
        let kustomized = match &names[..] {
            [] => kustomize(components, &Path::new(MANIFESTS).join("base"))?,
            [only] => kustomize(components, &Path::new(MANIFESTS).join(only))?,
            several => {
                let dir = tempfile::tempdir()?;
                write_kustomization(&dir.path().canonicalize()?, several)?;
                kustomize(components, dir.path())?
            }
        };
        let kustomized = without_namespace(kustomized)?;
        // Beside the base each by itself too; nothing that the others change is theirs.
        for with in [&[][..], &beside[..1], &beside[1..], &beside[..]] {
            if with.len() == 1 && !names.is_empty() {
                continue;
            }
            let (mut kustomized, mut values) = (kustomized.clone(), values.clone());
            for (rendered, value) in with {
                kustomized.extend(rendered.clone());
                values.push(value);
            }
            let chart = helm.template(CHART, NAMESPACE, &set(&values))?;
            same(
                &without_its_own(chart)?,
                &kustomized,
                &format!("{values:?}"),
            )?;
            compared += 1;
        }
        tokio::task::yield_now().await;
    }
    ensure!(compared == 26, "{compared} were compared");
    Ok(())
}

/// With several overlays and an image of the reader's own.
pub async fn the_kustomization_of_the_page_is_what_the_chart_renders(
    sandbox: Sandbox,
) -> Result<()> {
    let components = sandbox.cluster.plane.components();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/install.md");
    let page = fs::read_to_string(page)?;
    let block = page.split("\n```yaml\n").nth(1);
    let block = block.and_then(|rest| rest.split("```").next());
    // Beside the folders of a copy.
    let copy = tempfile::tempdir()?;
    for entry in WalkDir::new(MANIFESTS) {
        let entry = entry?;
        let to = copy.path().join(entry.path().strip_prefix(MANIFESTS)?);
        if entry.file_type().is_dir() {
            fs::create_dir_all(to)?;
        } else if entry.file_type().is_file() {
            fs::copy(entry.path(), to)?;
        }
    }
    let own = copy.path().join("own");
    fs::create_dir(&own)?;
    let block = block.context("the page has no kustomization")?;
    fs::write(own.join("kustomization.yaml"), block)?;
    let kustomized = without_namespace(kustomize(components, &own)?)?;
    let values = set(&[
        "certManager.enabled=true",
        "leaderWorkerSets=all",
        "monitoring.enabled=true",
        "image.repository=registry.example.com/muster",
        "image.tag=0.1.0",
    ]);
    let chart = Helm::new(components)?.template(CHART, NAMESPACE, &values)?;
    same(&without_its_own(chart)?, &kustomized, "docs/install.md")
}

/// The links in the folder `files` lead out of the chart: a package has what is behind them.
pub async fn a_package_renders_the_same(sandbox: Sandbox) -> Result<()> {
    let helm = Helm::new(sandbox.cluster.plane.components())?;
    let dir = helm.dir().to_string_lossy().into_owned();
    helm.printed(&["package", CHART, "--destination", &dir])?;
    let package = format!("{dir}/muster-{}.tgz", env!("CARGO_PKG_VERSION"));
    let all = set(&[
        "monitoring.enabled=true",
        "policies.enabled=true",
        "certManager.enabled=true",
    ]);
    let packed = helm.template(&package, NAMESPACE, &all)?;
    same(
        &packed,
        &helm.template(CHART, NAMESPACE, &all)?,
        "a package",
    )
}

pub async fn another_namespace_is_named_everywhere(sandbox: Sandbox) -> Result<()> {
    let helm = Helm::new(sandbox.cluster.plane.components())?;
    let values = set(&[
        "monitoring.enabled=true",
        "policies.enabled=true",
        "certManager.enabled=true",
        "networkPolicy.enabled=true",
        "networkPolicy.controlPlane={192.0.2.0/24}",
    ]);
    let here = helm.template(CHART, NAMESPACE, &values)?;
    let elsewhere = helm.template(CHART, "gangs", &values)?;
    let text = json!(elsewhere.values().collect::<Vec<_>>()).to_string();
    ensure!(!text.contains(NAMESPACE), "{NAMESPACE} is still named");
    let here = json!(here.values().collect::<Vec<_>>()).to_string();
    ensure!(text == here.replace(NAMESPACE, "gangs"));
    Ok(())
}

/// What breaks others: certificates that change with each rendering, bundles that are always different,
/// hooks whose image has vanished.
pub async fn the_chart_makes_no_certificate_and_needs_no_foreign_image(
    sandbox: Sandbox,
) -> Result<()> {
    let mut templates = 0;
    for entry in WalkDir::new(Path::new(CHART).join("templates")) {
        let entry = entry?;
        if entry.file_type().is_dir() {
            continue;
        }
        let text = fs::read_to_string(entry.path())?;
        for word in [
            "genCA",
            "genSigned",
            "genSelfSigned",
            "genPrivateKey",
            "lookup",
            "rand",
        ] {
            ensure!(
                !text.contains(word),
                "{} has {word}",
                entry.path().display()
            );
        }
        templates += 1;
    }
    ensure!(templates > 8, "{templates}");
    let helm = Helm::new(sandbox.cluster.plane.components())?;
    let values = set(&["image.repository=example.test/muster"]);
    let rendered = helm.template(CHART, NAMESPACE, &values)?;
    let mut images = 0;
    for object in rendered.values() {
        ensure!(!object.to_string().contains("caBundle"), "{object}");
        for at in [
            "/spec/containers/0/image",
            "/spec/template/spec/containers/0/image",
        ] {
            if let Some(image) = object.pointer(at) {
                ensure!(image == "example.test/muster:dev", "{image}");
                images += 1;
            }
        }
        if is_hook(object) {
            let hook = &object["metadata"]["annotations"]["helm.sh/hook"];
            ensure!(hook == "test", "{hook}");
        }
    }
    ensure!(images == 2, "the Deployment's and the test's, not {images}");
    Ok(())
}
