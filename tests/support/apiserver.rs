//! A small apiserver in memory, over HTTP on loopback: get, list, create, replace and apply with
//! resourceVersions, and a watch that says nothing. What a test wants to happen at a certain moment
//! it gives as a [`Twist`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::{Method, StatusCode, Uri};
use kube::{Client, Config};
use serde_json::{Value, json};

/// Called before each request is answered.
pub type Twist = Box<dyn FnMut(&Method, &Uri, &mut Objects) + Send>;

/// Objects by their path.
#[derive(Default)]
pub struct Objects {
    version: u64,
    by_path: BTreeMap<String, Value>,
}

impl Objects {
    pub fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.by_path.insert(path.to_owned(), object.clone());
        object
    }

    pub fn get(&self, path: &str) -> Option<&Value> {
        self.by_path.get(path)
    }

    pub fn remove(&mut self, path: &str) {
        self.version += 1;
        self.by_path.remove(path);
    }

    pub fn change(&mut self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.by_path[path].clone();
        change(&mut object);
        self.put(path, object);
    }

    /// Whether a write that was made from `given` comes too late.
    fn conflicts(&self, path: &str, given: &Value) -> bool {
        let version = &given["metadata"]["resourceVersion"];
        let current = self.get(path).map(|o| &o["metadata"]["resourceVersion"]);
        !version.is_null() && current != Some(version)
    }
}

pub struct Apiserver {
    pub objects: Mutex<Objects>,
    twist: Mutex<Twist>,
}

impl Apiserver {
    pub async fn start(objects: Objects, twist: Twist) -> (Arc<Self>, Client) {
        let server = Arc::new(Self {
            objects: Mutex::new(objects),
            twist: Mutex::new(twist),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let routes = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let config = Config::new(url.parse().expect("a URL"));
        (server, Client::try_from(config).expect("a client"))
    }
}

async fn answer(
    State(server): State<Arc<Apiserver>>,
    method: Method,
    uri: Uri,
    body: Bytes,
) -> Response {
    let mut objects = server.objects.lock().expect("unpoisoned");
    (server.twist.lock().expect("unpoisoned"))(&method, &uri, &mut objects);
    let path = uri.path();
    let query = uri.query().unwrap_or_default();
    if query.contains("watch=true") {
        return Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>())
            .into_response();
    }
    let given: Value = serde_json::from_slice(&body).unwrap_or_default();
    match method {
        Method::GET if query.contains("fieldSelector") => {
            let name = query.split("metadata.name%3D").nth(1).unwrap_or_default();
            let name = name.split('&').next().unwrap_or_default();
            let found = objects.get(&format!("{path}/{name}"));
            let list = json!({
                "apiVersion": "v1",
                "kind": "List",
                "metadata": {"resourceVersion": objects.version.to_string()},
                "items": found.into_iter().collect::<Vec<_>>(),
            });
            list.to_string().into_response()
        }
        Method::GET => match objects.get(path) {
            Some(object) => object.to_string().into_response(),
            None => status(StatusCode::NOT_FOUND, "NotFound"),
        },
        Method::POST => {
            let name = given["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{path}/{name}");
            if objects.get(&path).is_some() {
                return status(StatusCode::CONFLICT, "AlreadyExists");
            }
            objects.put(&path, given).to_string().into_response()
        }
        _ if objects.conflicts(path, &given) => status(StatusCode::CONFLICT, "Conflict"),
        Method::PUT => objects.put(path, given).to_string().into_response(),
        Method::PATCH => {
            objects.change(path, |object| apply_bundles(object, &given));
            objects.by_path[path].to_string().into_response()
        }
        _ => status(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
    }
}

/// As much of server-side apply as the keeper of the CA needs.
fn apply_bundles(object: &mut Value, given: &Value) {
    let given = given["webhooks"].as_array().cloned().unwrap_or_default();
    let hooks = object["webhooks"].as_array_mut().expect("webhooks");
    for hook in hooks {
        if let Some(same) = given.iter().find(|g| g["name"] == hook["name"]) {
            hook["clientConfig"]["caBundle"] = same["clientConfig"]["caBundle"].clone();
        }
    }
}

fn status(code: StatusCode, reason: &str) -> Response {
    let status = json!({
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": reason,
        "code": code.as_u16(),
    });
    (code, status.to_string()).into_response()
}
