//! What the command line asks a cluster for, and how it gets there: a small apiserver that has two pages
//! of nodes and nothing else, and a proxy before it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// An apiserver on loopback. A proxy is the same, since it plays what is behind it.
struct Fake {
    address: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let note = Arc::clone(&note);
                std::thread::spawn(move || serve(stream, &note));
            }
        });
        Self { address, seen }
    }

    /// The requests of a path, each as its method and what it asks for.
    fn seen(&self, part: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let found = seen.iter().filter(|line| line.contains(part));
        found.cloned().collect()
    }
}

/// Answers the requests of one connection.
fn serve(stream: TcpStream, seen: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let header = header.trim().to_ascii_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if header.is_empty() {
                break;
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).ok()?;
        let asked = line.trim().trim_end_matches(" HTTP/1.1").to_owned();
        seen.lock().unwrap().push(asked.clone());
        if asked.starts_with("CONNECT ") {
            write!(stream, "HTTP/1.1 200 OK\r\n\r\n").ok()?;
            continue;
        }
        let (code, body) = answer(&asked);
        let body = body.to_string();
        write!(
            stream,
            "HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
    }
}

fn answer(asked: &str) -> (&'static str, Value) {
    let (_, asked) = asked.split_once(' ').unwrap_or_default();
    let (path, query) = asked.split_once('?').unwrap_or((asked, ""));
    let list = |items: Value, more: &str| {
        let body = json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": more},
            "items": items});
        ("200 OK", body)
    };
    let node = |name: &str| json!([{"metadata": {"name": name}, "spec": {}, "status": {}}]);
    match path {
        "/version" => {
            let text = ["gitVersion", "gitCommit", "gitTreeState", "buildDate"];
            let more = ["goVersion", "compiler", "platform"];
            let mut version = json!({"major": "1", "minor": "37"});
            for key in text.into_iter().chain(more) {
                version[key] = json!("x");
            }
            ("200 OK", version)
        }
        "/apis/authentication.k8s.io/v1/selfsubjectreviews" => {
            let user = json!({"username": "me"});
            (
                "201 Created",
                json!({"metadata": {}, "status": {"userInfo": user}}),
            )
        }
        "/api/v1/nodes" if query.contains("continue=") => list(node("b"), ""),
        "/api/v1/nodes" => list(node("a"), "second"),
        _ if path.starts_with("/api/v1/") => list(json!([]), ""),
        _ => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                "status": "Failure", "message": "not here", "reason": "NotFound", "code": 404});
            ("404 Not Found", status)
        }
    }
}

/// A kubeconfig of two contexts, of which the first is the current one and leads nowhere.
fn kubeconfig(server: &str, proxy: Option<&str>) -> tempfile::NamedTempFile {
    let proxy = proxy.map_or(String::new(), |proxy| format!(", proxy-url: {proxy:?}"));
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: old\nusers: [{{name: me, user: {{}}}}]\n\
         clusters:\n- {{name: old, cluster: {{server: \"http://127.0.0.1:1\"}}}}\n\
         - {{name: new, cluster: {{server: {server:?}{proxy}}}}}\n\
         contexts:\n- {{name: old, context: {{cluster: old, user: me}}}}\n\
         - {{name: new, context: {{cluster: new, user: me, namespace: ml}}}}\n"
    );
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn muster(args: &[&str], kubeconfig: &tempfile::NamedTempFile) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command
        .args(args)
        .arg("--kubeconfig")
        .arg(kubeconfig.path());
    for key in ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"] {
        command.env_remove(key).env_remove(key.to_lowercase());
    }
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn a_context_that_is_named_is_asked_and_not_the_current_one() {
    let cluster = Fake::start();
    let config = kubeconfig(&format!("http://{}", cluster.address), None);
    let status = |args: &[&str]| muster(args, &config).output().unwrap();
    let old = text(&status(&["status"]));
    assert!(old.contains("no answer from http://127.0.0.1:1"), "{old}");
    let new = status(&["status", "--context", "new"]);
    assert_eq!(text(&new), "no gangs\n");
    // With its namespace.
    assert!(!cluster.seen("/namespaces/ml/pods").is_empty());
    let unknown = text(&status(&["status", "--context", "newer"]));
    let said = "error: the kubeconfig has no context \"newer\"\n";
    assert_eq!(unknown, said);
    for command in [
        &["explain", "pod/a"][..],
        &["verify"],
        &["crd", "extend", "--dry-run"],
    ] {
        let args = [command, &["--context", "newer"]].concat();
        let said = text(&status(&args));
        assert!(said.contains("newer"), "{args:?}: {said}");
    }
}

/// Two pods on each of five thousand nodes in one answer are too much every five seconds.
#[test]
fn what_a_cluster_has_many_of_is_asked_for_in_pages() {
    let cluster = Fake::start();
    let config = kubeconfig(&format!("http://{}", cluster.address), None);
    let listed = muster(&["status", "-A", "--context", "new"], &config).output();
    assert_eq!(text(&listed.unwrap()), "no gangs\n");
    let nodes = cluster.seen("/api/v1/nodes");
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    assert!(nodes[1].contains("continue=second"), "{nodes:?}");
    let lists = cluster.seen("GET /api/v1/");
    assert!(lists.len() >= 5, "{lists:?}");
    for asked in lists {
        assert!(asked.contains("limit=500"), "{asked}");
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_watch_prints_one_array_after_the_other_for_scripts() {
    let cluster = Fake::start();
    let config = kubeconfig(&format!("http://{}", cluster.address), None);
    let mut command = muster(
        &["status", "--watch", "-o", "json", "--context", "new"],
        &config,
    );
    let mut watch = Killed(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    let begun = std::time::Instant::now();
    for _ in 0..2 {
        let line = lines.next().unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), json!([]));
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(4), "{took:?}");
    assert_eq!(cluster.seen("/version").len(), 1, "once is enough");
}

#[test]
fn behind_a_proxy_the_cluster_is_asked_through_it() {
    let server = "http://cluster.example:6443";
    // That of the kubeconfig, whatever the environment says.
    let proxy = Fake::start();
    let address = format!("http://{}", proxy.address);
    let config = kubeconfig(server, Some(&address));
    let mut own = muster(&["status", "--context", "new"], &config);
    let listed = own.env("NO_PROXY", "127.0.0.1,*").output();
    assert_eq!(text(&listed.unwrap()), "no gangs\n");
    let tunnels = proxy.seen("CONNECT ");
    assert_eq!(tunnels[0], "CONNECT cluster.example:6443");
    // That of the environment, also without a scheme.
    let proxy = Fake::start();
    let config = kubeconfig(server, None);
    let status = |without: &str| {
        let mut command = muster(&["status", "--context", "new"], &config);
        command
            .env("HTTP_PROXY", &proxy.address)
            .env("NO_PROXY", without);
        text(&command.output().unwrap())
    };
    assert_eq!(status(""), "no gangs\n");
    assert!(!proxy.seen("CONNECT cluster.example:6443").is_empty());
    // NO_PROXY is about clusters, not about the proxy, and may end in a comma.
    assert_eq!(status("localhost,127.0.0.1,"), "no gangs\n");
    // It is none of a cluster that NO_PROXY names, nor of one on this machine.
    let seen = proxy.seen("").len();
    let direct = status("a,,example");
    assert!(direct.contains("no answer from http://cluster"), "{direct}");
    let cluster = Fake::start();
    let config = kubeconfig(&format!("http://{}", cluster.address), None);
    let mut local = muster(&["status", "--context", "new"], &config);
    let listed = local.env("HTTP_PROXY", &proxy.address).output().unwrap();
    assert_eq!(text(&listed), "no gangs\n");
    assert_eq!(proxy.seen("").len(), seen);
}

#[test]
fn a_cluster_that_speaks_https_has_a_proxy_of_its_own() {
    let (proxy, other) = (Fake::start(), Fake::start());
    let config = kubeconfig("https://cluster.example", None);
    let status = |proxy: &str| {
        let mut command = muster(&["status", "--context", "new"], &config);
        command.env("https_proxy", proxy);
        let output = command.env("HTTP_PROXY", &other.address).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        text(&output)
    };
    // It speaks no TLS, and has heard what it is asked for.
    let said = status(&proxy.address);
    assert!(
        said.contains("no answer from https://cluster.example"),
        "{said}"
    );
    let tunnels = proxy.seen("");
    assert_eq!(tunnels[0], "CONNECT cluster.example:443");
    assert!(other.seen("").is_empty());
    let said = status("socks5://127.0.0.1:1080");
    assert!(said.contains("no SOCKS"), "{said}");
}
