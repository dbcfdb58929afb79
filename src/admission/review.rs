//! The request: a borrowed view of `admission.k8s.io/v1`, read in one pass.
//!
//! The apiserver writes `kind` before `object`, so the object is parsed straight into the view of
//! its kind while the envelope is read. In any other order, and to say what is wrong with an
//! object, a second pass over the raw object does the same.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::Unanswerable;
use crate::gang::field::shorten;
use crate::workload::object::{self, Seed};
use crate::workload::view::{Meta, Text};
use crate::workload::{Kind, Object};

/// The apiserver writes a UUID.
const MAX_UID: usize = 128;
/// A DNS label.
const MAX_NAMESPACE: usize = 63;
/// A DNS subdomain.
const MAX_NAME: usize = 253;
/// Longer than those of service accounts; a certificate's or a token's may be long.
const MAX_USERNAME: usize = 4096;

const API_VERSION: &str = "admission.k8s.io/v1";

/// What is being done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// `CREATE`
    Create,
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
    /// `CONNECT`, which Muster is not registered for.
    Connect,
}

impl Operation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Whether an object is decided about as it was sent, or with what was injected into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    First,
    Second,
}

/// One admission request.
#[derive(Debug)]
pub struct Review<'a> {
    pub(crate) uid: Text<'a>,
    pub(crate) kind: &'static Kind,
    pub(crate) operation: Operation,
    pub(crate) sub_resource: Option<Text<'a>>,
    pub(crate) username: Option<Text<'a>>,
    pub(crate) object: Option<Object<'a>>,
    pub(crate) old_object: Option<Object<'a>>,
    /// About how many bytes the object has: of all that was sent, half where there are two.
    pub(crate) size: usize,
    /// All that was sent.
    pub(super) body: &'a [u8],
    pub(super) turn: Turn,
    namespace: Option<Text<'a>>,
    name: Option<Text<'a>>,
}

impl<'a> Review<'a> {
    /// Reads a request body.
    pub fn parse(body: &'a [u8]) -> Result<Self, Unanswerable> {
        let mut review = match serde_json::from_slice::<Envelope<'a, Typed<'a>>>(body) {
            Ok(envelope) => Self::from_envelope(envelope)?,
            // Either the envelope is broken, or an object does not fit its view: look again.
            Err(_) => Self::from_envelope(serde_json::from_slice::<Envelope<'a, Raw<'a>>>(body)?)?,
        };
        review.check_lengths()?;
        let objects = if review.old_object.is_some() { 2 } else { 1 };
        review.size = body.len() / objects;
        review.body = body;
        Ok(review)
    }

    /// These texts come back in answers, and go on into the log: none is longer than in Kubernetes.
    fn check_lengths(&self) -> Result<(), Unanswerable> {
        let fields = [
            ("uid", Some(&self.uid), MAX_UID),
            ("namespace", self.namespace.as_ref(), MAX_NAMESPACE),
            ("name", self.name.as_ref(), MAX_NAME),
            ("user name", self.username.as_ref(), MAX_USERNAME),
        ];
        for (field, text, most) in fields {
            let bytes = text.map_or(0, |text| text.len());
            if bytes > most {
                return Err(Unanswerable::Unsupported(format!(
                    "the request's {field} has {bytes} bytes; at most {most} are taken"
                )));
            }
        }
        Ok(())
    }

    fn from_envelope<S: Slot<'a>>(envelope: Envelope<'a, S>) -> Result<Self, Unanswerable> {
        let unsupported = |text: String| Err(Unanswerable::Unsupported(text));
        let version = envelope.api_version.as_deref().unwrap_or_default();
        let kind = envelope.kind.as_deref().unwrap_or_default();
        if version != API_VERSION || kind != "AdmissionReview" {
            return unsupported(format!(
                "expected {API_VERSION} AdmissionReview, got {} {}",
                shorten(format!("{version:?}")),
                shorten(format!("{kind:?}"))
            ));
        }
        let Some(request) = envelope.request else {
            return unsupported("the AdmissionReview has no request".into());
        };
        let Some(uid) = request.uid.filter(|uid| !uid.is_empty()) else {
            return unsupported("the request has no uid".into());
        };
        let Some(operation) = request.operation else {
            return unsupported("the request has no operation".into());
        };
        let kind = match request.kind {
            Some(KindRead::Known(kind)) => kind,
            Some(KindRead::Other(other)) => {
                let other = shorten(format!("{other:?}"));
                return unsupported(format!(
                    "{other} is not a kind that Muster handles ({}): the webhook configuration \
                     sends too much",
                    object::names().join(", ")
                ));
            }
            None => return unsupported("the request has no kind".into()),
        };
        let writes = matches!(operation, Operation::Create | Operation::Update);
        let updates = operation == Operation::Update;
        if writes && request.object.is_none() || updates && request.old_object.is_none() {
            return unsupported(format!(
                "the request is a {} but lacks object or oldObject",
                operation.as_str()
            ));
        }
        let read = |slot: Option<S>| slot.map(|slot| slot.object(kind));
        Ok(Self {
            uid,
            kind,
            operation,
            sub_resource: request.sub_resource.filter(|s| !s.is_empty()),
            username: request.username,
            object: read(request.object),
            old_object: read(request.old_object),
            size: 0,
            body: &[],
            turn: Turn::First,
            namespace: request.namespace,
            name: request.name,
        })
    }

    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// The object's name, or what it will be generated from.
    pub(crate) fn name(&self) -> &str {
        match self.name.as_deref() {
            Some(name) if !name.is_empty() => name,
            _ => {
                let meta = self.object.as_ref().and_then(Object::meta);
                meta.map_or("", Meta::display_name)
            }
        }
    }

    /// Who sent the request.
    pub fn user(&self) -> Option<&str> {
        self.username.as_deref()
    }

    /// Whether a controller, and not a person, sent the request.
    pub(crate) fn by_service_account(&self) -> bool {
        let user = self.user();
        user.is_some_and(|user| user.starts_with("system:serviceaccount:"))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "S: Slot<'a>, 'de: 'a"))]
struct Envelope<'a, S> {
    #[serde(borrow, default)]
    api_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    kind: Option<Text<'a>>,
    #[serde(default = "Option::default")]
    request: Option<Request<'a, S>>,
}

impl<'de: 'a, 'a, S: Slot<'a>> Deserialize<'de> for Request<'a, S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RequestVisitor(PhantomData))
    }
}

#[derive(Debug)]
struct Request<'a, S> {
    uid: Option<Text<'a>>,
    kind: Option<KindRead>,
    operation: Option<Operation>,
    sub_resource: Option<Text<'a>>,
    namespace: Option<Text<'a>>,
    name: Option<Text<'a>>,
    username: Option<Text<'a>>,
    object: Option<S>,
    old_object: Option<S>,
}

#[derive(Debug)]
enum KindRead {
    Known(&'static Kind),
    Other(String),
}

#[derive(Deserialize)]
struct GroupKind<'a> {
    #[serde(borrow, default)]
    group: Text<'a>,
    #[serde(borrow, default)]
    kind: Text<'a>,
}

#[derive(Deserialize)]
struct UserInfo<'a> {
    #[serde(borrow, default)]
    username: Option<Text<'a>>,
}

struct RequestVisitor<'a, S>(PhantomData<(&'a (), S)>);

impl<'de: 'a, 'a, S: Slot<'a>> Visitor<'de> for RequestVisitor<'a, S> {
    type Value = Request<'a, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an admission request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut request = Request {
            uid: None,
            kind: None,
            operation: None,
            sub_resource: None,
            namespace: None,
            name: None,
            username: None,
            object: None,
            old_object: None,
        };
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key {
                "uid" => request.uid = map.next_value()?,
                "kind" => {
                    let found: Option<GroupKind<'de>> = map.next_value()?;
                    request.kind = found.map(|found| {
                        object::kind_of(&found.group, &found.kind).map_or_else(
                            || KindRead::Other(found.kind.to_string()),
                            KindRead::Known,
                        )
                    });
                }
                "operation" => request.operation = map.next_value()?,
                "subResource" => request.sub_resource = map.next_value()?,
                "namespace" => request.namespace = map.next_value()?,
                "name" => request.name = map.next_value()?,
                "userInfo" => {
                    let user: Option<UserInfo<'de>> = map.next_value()?;
                    request.username = user.and_then(|user| user.username);
                }
                "object" => request.object = S::read(&mut map, request.kind.as_ref())?,
                "oldObject" => request.old_object = S::read(&mut map, request.kind.as_ref())?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(request)
    }
}

/// How an object is read: straight into its view, or raw.
trait Slot<'a>: Sized {
    fn read<'de: 'a, A: MapAccess<'de>>(
        map: &mut A,
        kind: Option<&KindRead>,
    ) -> Result<Option<Self>, A::Error>;

    fn object(self, kind: &Kind) -> Object<'a>;
}

/// Read in the first pass.
#[derive(Debug)]
struct Typed<'a>(Object<'a>);

impl<'a> Slot<'a> for Typed<'a> {
    fn read<'de: 'a, A: MapAccess<'de>>(
        map: &mut A,
        kind: Option<&KindRead>,
    ) -> Result<Option<Self>, A::Error> {
        let Some(KindRead::Known(kind)) = kind else {
            // `object` stands before `kind`, or the kind is foreign: the second pass sorts it out.
            return Err(A::Error::custom("the kind is not known yet"));
        };
        Ok(map.next_value_seed(Seed(kind))?.map(Self))
    }

    fn object(self, _kind: &Kind) -> Object<'a> {
        self.0.checked()
    }
}

/// Kept as text for the second pass.
#[derive(Debug)]
struct Raw<'a>(&'a RawValue);

impl<'a> Slot<'a> for Raw<'a> {
    fn read<'de: 'a, A: MapAccess<'de>>(
        map: &mut A,
        _kind: Option<&KindRead>,
    ) -> Result<Option<Self>, A::Error> {
        let raw: Option<&'de RawValue> = map.next_value()?;
        Ok(raw.map(Raw))
    }

    fn object(self, kind: &Kind) -> Object<'a> {
        Object::read(kind, self.0.get())
    }
}
