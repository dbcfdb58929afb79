//! The fields of the kinds that Muster reads, from what Kubernetes and the operators publish: the
//! OpenAPI definitions of each Kubernetes that is tested, and the operators' CRDs.
//!
//! It makes `src/cli/schema/fields.txt`, by which `muster check` finds fields that an apiserver would
//! not know, or miss. `src/cli/schema/mod.rs` says what a type is. A type of Kubernetes has the fields of
//! all versions together; what is asked of a field is what all of them ask. A CRD has its fields at its
//! own paths, and a type of its own, named after the first of these paths, where no other type has
//! exactly these fields. What a CRD asks of the fields of its templates is left out: the operators'
//! webhooks fill in what Go would write, and of what is made of a template Kubernetes' own type tells.

#[path = "fields/marks.rs"]
mod marks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use muster::cli::{crd, yaml};
use serde_json::{Value, json};

const HEAD: &str = "\
# Made by `cargo run --features e2e --example fields`; do not edit.
# The fields of the kinds that Muster reads: those of Kubernetes 1.35, 1.36 and 1.37, JobSet 0.12 and
# LeaderWorkerSet 0.9, and those that `muster crd extend` adds.
";

const KUBERNETES: [&str; 3] = ["kubernetes-1.35", "kubernetes-1.36", "kubernetes-1.37"];
const SWAGGER: &str = "api/openapi-spec/swagger.json";

/// The groups whose kinds are listed, so that those which Muster does not read are not taken for
/// misspelt ones.
const GROUPS: [&str; 3] = ["", "apps", "batch"];
/// The kinds of Kubernetes' own that Muster reads, all in `v1`.
const KINDS: [(&str, &str); 8] = [
    ("", "Pod"),
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("batch", "CronJob"),
    ("batch", "Job"),
];

/// Counts, which Kubernetes' validation holds to zero or more although no schema says so. A CRD may take
/// a negative one, and what its controller makes of it is refused.
const COUNTS: [&str; 3] = ["completions", "parallelism", "replicas"];

/// A CRD: its module and file, fields that it lacks and some other version of it has, and what its
/// operator makes of its templates.
struct Crd {
    module: &'static str,
    file: &'static str,
    more: &'static [(&'static str, &'static str)],
    made: &'static [(&'static str, &'static str)],
}

/// A field of the proposals for gangs of their own, which Muster reads too.
const OWN_GANGS: (&str, &str) = ("/spec", "scheduling");

const CRDS: [Crd; 2] = [
    Crd {
        module: "sigs.k8s.io/jobset",
        file: "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
        more: &[
            OWN_GANGS,
            // Of Kubernetes 1.35, for which JobSet 0.11 was made.
            (
                "/spec/replicatedJobs/template/spec/template/spec",
                "workloadRef",
            ),
        ],
        made: &[
            ("JobSet.spec.replicatedJobs.template", "JobTemplateSpec"),
            (
                "JobSet.spec.volumeClaimPolicies.templates",
                "[]PersistentVolumeClaim",
            ),
        ],
    },
    Crd {
        module: "sigs.k8s.io/lws",
        file: "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
        more: &[
            OWN_GANGS,
            (
                "/spec/leaderWorkerTemplate/leaderTemplate/spec",
                "workloadRef",
            ),
            (
                "/spec/leaderWorkerTemplate/workerTemplate/spec",
                "workloadRef",
            ),
        ],
        made: &[
            (
                "LeaderWorkerSet.spec.leaderWorkerTemplate.leaderTemplate",
                "PodTemplateSpec",
            ),
            (
                "LeaderWorkerSet.spec.leaderWorkerTemplate.volumeClaimTemplates",
                "[]PersistentVolumeClaim",
            ),
            (
                "LeaderWorkerSet.spec.leaderWorkerTemplate.workerTemplate",
                "PodTemplateSpec",
            ),
        ],
    },
];

/// A field, as a line of the table says it.
#[derive(Debug, Clone, Default, PartialEq)]
struct Field {
    of: String,
    required: bool,
    values: BTreeSet<String>,
    /// What a controller makes of it.
    made: Option<&'static str>,
    /// Whether `muster crd extend` adds it.
    added: bool,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of)?;
        if self.required {
            f.write_str(" required")?;
        }
        if !self.values.is_empty() {
            let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
            write!(f, " in:{}", values.join(","))?;
        }
        if let Some(made) = self.made {
            write!(f, " makes:{made}")?;
        }
        if self.added {
            f.write_str(" added")?;
        }
        Ok(())
    }
}

impl Field {
    /// Whether anything is asked of it beyond its type.
    fn asks(&self) -> bool {
        self.required || !self.values.is_empty()
    }
}

type Fields = BTreeMap<String, Field>;

#[derive(Default)]
struct Table {
    /// By `apiVersion` and `kind`: the type, where its fields are listed.
    kinds: BTreeMap<(String, String), Option<String>>,
    types: BTreeMap<String, Fields>,
}

/// The text of `fields.txt`.
pub fn table() -> Result<String> {
    let mut table = Table::default();
    let mut versions = Vec::new();
    for group in KUBERNETES {
        let module = module(group, "k8s.io/kubernetes")?;
        let swagger: Value = serde_json::from_str(&read(&module.join(SWAGGER))?)?;
        let mut version = Table::default();
        let values = marks::values(&read(&module.join(marks::CODE))?);
        version.kubernetes(&swagger["definitions"], &values)?;
        versions.push(version);
    }
    table.all_of(versions);
    for crd in &CRDS {
        let text = read(&module("kubernetes-1.36", crd.module)?.join(crd.file))?;
        let document = yaml::documents(&text).into_iter().next();
        let object = document.context("no document")??.value;
        table.crd(object, crd)?;
    }
    Ok(table.write())
}

/// Where a Go module's files are.
fn module(group: &str, module: &str) -> Result<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/modules");
    let output = Command::new("go")
        .args(["mod", "download", "-json", module])
        .current_dir(dir.join(group))
        .env("GOWORK", "off")
        .output()
        .context("cannot run `go`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "go mod download {module}: {said}");
    let found: Value = serde_json::from_slice(&output.stdout)?;
    let dir = found["Dir"].as_str().context("the module has no files")?;
    Ok(PathBuf::from(dir))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

impl Table {
    /// The fields of all versions of Kubernetes, and what every one of them asks.
    fn all_of(&mut self, versions: Vec<Self>) {
        let count = versions.len();
        let mut seen: BTreeMap<(String, String), Vec<Field>> = BTreeMap::new();
        for version in versions {
            self.kinds.extend(version.kinds);
            for (name, fields) in version.types {
                for (field, is) in fields {
                    seen.entry((name.clone(), field)).or_default().push(is);
                }
            }
        }
        for ((name, field), all) in seen {
            // A field that not all have stands behind a feature gate, and is dropped where it is off.
            let everywhere = all.len() == count;
            let listed = everywhere && all.iter().all(|field| !field.values.is_empty());
            let values = all.iter().flat_map(|field| field.values.clone());
            let is = Field {
                required: everywhere && all.iter().all(|field| field.required),
                values: values.filter(|_| listed).collect(),
                ..all.last().cloned().unwrap_or_default()
            };
            self.types.entry(name).or_default().insert(field, is);
        }
    }

    /// Adds the kinds of one version of Kubernetes.
    fn kubernetes(
        &mut self,
        definitions: &Value,
        values: &BTreeMap<(String, String), BTreeSet<String>>,
    ) -> Result<()> {
        let mut todo = Vec::new();
        let all = definitions.as_object().context("no definitions")?;
        for (name, definition) in all {
            let kinds = definition["x-kubernetes-group-version-kind"].as_array();
            // One that stands for many kinds is none that is stored.
            let Some([kind]) = kinds.map(Vec::as_slice) else {
                continue;
            };
            let text = |key: &str| kind[key].as_str().unwrap_or_default();
            let (group, version, kind) = (text("group"), text("version"), text("kind"));
            if !GROUPS.contains(&group) || kind.ends_with("List") {
                continue;
            }
            let read = version == "v1" && KINDS.contains(&(group, kind));
            let root = read.then(|| short(name));
            todo.extend(read.then(|| name.clone()));
            self.kinds
                .insert((api_version(group, version), kind.to_owned()), root);
        }
        let mut seen = BTreeSet::new();
        while let Some(name) = todo.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            let (short, definition) = (short(&name), &definitions[&name]);
            let properties = definition["properties"].as_object();
            for (field, schema) in properties.context("no properties")? {
                let of = of_kubernetes(schema, field, definitions, &mut todo)?;
                let at = (short.clone(), field.clone());
                let is = Field {
                    of,
                    required: marks::is_needed(&short, field, requires(definition, field)),
                    values: values.get(&at).cloned().unwrap_or_default(),
                    ..Field::default()
                };
                let fields = self.types.entry(short.clone()).or_default();
                fields.insert(field.clone(), is);
            }
        }
        Ok(())
    }

    /// Adds the kind of a CRD, in each of its versions.
    fn crd(&mut self, stock: Value, crd: &Crd) -> Result<()> {
        let installed = extended(stock.clone())?;
        let spec = &installed["spec"];
        let text = |value: &Value| value.as_str().map(str::to_owned).context("not a text");
        let (group, kind) = (text(&spec["group"])?, text(&spec["names"]["kind"])?);
        let versions = spec["versions"].as_array().context("no versions")?;
        for (index, version) in versions.iter().enumerate() {
            let name = text(&version["name"])?;
            let of = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
            let (mut schema, mut stock) = (of(version), of(&stock["spec"]["versions"][index]));
            for (parent, field) in crd.more {
                for schema in [&mut schema, &mut stock] {
                    let parent = properties(schema, parent).context("no such parent")?;
                    parent[*field] = json!({"x-kubernetes-preserve-unknown-fields": true});
                }
            }
            let root = self.fields_of_crd(&schema, &stock, &kind, crd)?;
            self.kinds
                .insert((api_version(&group, &name), kind.clone()), Some(root));
        }
        Ok(())
    }

    /// The type of an object in a CRD: its fields, of which some are not in the stock one.
    fn fields_of_crd(
        &mut self,
        schema: &Value,
        stock: &Value,
        path: &str,
        crd: &Crd,
    ) -> Result<String> {
        let templated = crd.made.iter().any(|(template, _)| {
            let below = path.strip_prefix(template);
            below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
        });
        let mut fields = Fields::new();
        for (field, schema) in schema["properties"].as_object().context("no fields")? {
            let inner = format!("{path}.{field}");
            let stock = &stock["properties"];
            let of = match (path.contains('.'), field.as_str()) {
                // The apiserver has its own type for it, whatever a CRD says.
                (false, "metadata") => "ObjectMeta".to_owned(),
                _ => self.of_crd(schema, &stock[field], field, &inner, crd)?,
            };
            let made = crd.made.iter().find(|(template, _)| *template == inner);
            fields.insert(
                field.clone(),
                Field {
                    of,
                    made: made.map(|(_, made)| *made),
                    added: stock.is_object() && stock[field].is_null(),
                    ..Field::default()
                },
            );
        }
        if !templated {
            for (field, is) in &mut fields {
                let schema_of_field = &schema["properties"][field];
                let said = requires(schema, field) && schema_of_field["default"].is_null();
                is.required = marks::is_needed(path, field, said);
                let values = schema_of_field["enum"].as_array().into_iter().flatten();
                is.values = values
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect();
            }
        }
        let same: fn(&Fields, &Fields) -> bool = match templated {
            // A type that asks for something may be about something else: a node selector's requirement has
            // the fields of a label selector's, and more operators.
            true => {
                |known, fields| types(known).eq(types(fields)) && !known.values().any(Field::asks)
            }
            false => |known, fields| known == fields,
        };
        Ok(self.named(fields, path, same))
    }

    /// The type of a field in a CRD.
    fn of_crd(
        &mut self,
        schema: &Value,
        stock: &Value,
        field: &str,
        path: &str,
        crd: &Crd,
    ) -> Result<String> {
        let is = |key: &str| schema[key] == json!(true);
        if is("x-kubernetes-int-or-string") {
            let pattern = schema["pattern"].as_str().unwrap_or_default();
            return Ok(match pattern.contains("[numkMGTPE]") {
                // A schema takes no 0.5, but it never sees one: before it is asked, the operator's webhook
                // has read the object into Go's types and written it anew, with 500m.
                true => "quantity".to_owned(),
                false => "int-or-string".to_owned(),
            });
        }
        if is("x-kubernetes-preserve-unknown-fields") {
            return Ok("any".to_owned());
        }
        Ok(match schema["type"].as_str() {
            Some("object") => match (
                schema["properties"].as_object(),
                &schema["additionalProperties"],
            ) {
                (Some(_), _) => self.fields_of_crd(schema, stock, path, crd)?,
                (None, Value::Null) => "any".to_owned(),
                (None, values) => {
                    let stock = &stock["additionalProperties"];
                    format!("{{}}{}", self.of_crd(values, stock, field, path, crd)?)
                }
            },
            Some("array") => {
                let (items, stock) = (&schema["items"], &stock["items"]);
                format!("[]{}", self.of_crd(items, stock, field, path, crd)?)
            }
            _ => scalar(schema, field)?,
        })
    }

    /// The name of the type that has the same fields; its path is that of a new one.
    fn named(&mut self, fields: Fields, path: &str, same: fn(&Fields, &Fields) -> bool) -> String {
        let known = self.types.iter().find(|(_, known)| same(known, &fields));
        match known {
            Some((name, _)) => name.clone(),
            None => {
                self.types.insert(path.to_owned(), fields);
                path.to_owned()
            }
        }
    }

    fn write(&self) -> String {
        let mut text = HEAD.to_owned();
        for ((version, kind), root) in &self.kinds {
            let root = root.iter().map(|root| format!(" {root}"));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "kind {version} {kind}{}", root.collect::<String>());
        }
        for (name, fields) in &self.types {
            let _ = writeln!(text, "type {name}");
            for (field, of) in fields {
                let _ = writeln!(text, "  {field} {of}");
            }
        }
        text
    }
}

/// The types of fields, whatever is asked of them.
fn types(fields: &Fields) -> impl Iterator<Item = (&str, &str)> {
    fields
        .iter()
        .map(|(name, is)| (name.as_str(), is.of.as_str()))
}

/// Whether a schema says that a field must be there.
fn requires(schema: &Value, field: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|fields| fields.iter().any(|name| name == field))
}

/// The type of a field in Kubernetes' definitions; types that it names are still to be listed.
fn of_kubernetes(
    schema: &Value,
    field: &str,
    definitions: &Value,
    todo: &mut Vec<String>,
) -> Result<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        let definition = &definitions[name];
        return Ok(match short(name).as_str() {
            "IntOrString" => "int-or-string".to_owned(),
            "Quantity" => "quantity".to_owned(),
            short if definition["properties"].is_object() => {
                todo.push(name.to_owned());
                short.to_owned()
            }
            _ if definition["type"] == "string" => "string".to_owned(),
            _ => "any".to_owned(),
        });
    }
    Ok(match schema["type"].as_str() {
        Some("object") => match &schema["additionalProperties"] {
            Value::Null => "any".to_owned(),
            values => format!("{{}}{}", of_kubernetes(values, field, definitions, todo)?),
        },
        Some("array") => {
            let items = of_kubernetes(&schema["items"], field, definitions, todo)?;
            format!("[]{items}")
        }
        _ => scalar(schema, field)?,
    })
}

/// The type of a value without parts.
fn scalar(schema: &Value, field: &str) -> Result<String> {
    let bits = schema["format"].as_str().unwrap_or("int64");
    let least = schema["minimum"].as_i64();
    let least = least.or(COUNTS.contains(&field).then_some(0));
    Ok(match (schema["type"].as_str(), bits, least) {
        (Some(of @ ("string" | "boolean")), _, _) => of.to_owned(),
        (Some("integer"), "int32" | "int64", Some(least)) => format!("{bits}>={least}"),
        (Some("integer"), "int32" | "int64", None) => bits.to_owned(),
        _ => bail!("a type that the table has no word for: {schema}"),
    })
}

/// The CRD with what `muster crd extend` adds, where it is the one that it extends.
pub fn extended(mut installed: Value) -> Result<Value> {
    if installed["metadata"]["name"] == crd::NAME {
        let patch = crd::patch(crd::Wish::Extend, &installed)?;
        json_patch::patch(&mut installed, &patch)?;
    }
    Ok(installed)
}

/// The properties of what stands at a path of fields, through lists.
fn properties<'s>(schema: &'s mut Value, path: &str) -> Option<&'s mut Value> {
    let mut schema = schema;
    for field in path.split('/').skip(1) {
        if schema["type"] == "array" {
            schema = schema.get_mut("items")?;
        }
        schema = schema.get_mut("properties")?.get_mut(field)?;
    }
    if schema["type"] == "array" {
        schema = schema.get_mut("items")?;
    }
    schema.get_mut("properties")
}

/// The last word of a definition's name: `io.k8s.api.core.v1.PodSpec` is `PodSpec`.
fn short(name: &str) -> String {
    name.rsplit('.').next().unwrap_or(name).to_owned()
}

fn api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}
