//! What a pod asks of a node, counted as kube-scheduler counts it.
//!
//! Takes a pod spec as a user wrote it, applies the defaults that the API server would apply when
//! the pod is created, and sums up. Follows Kubernetes 1.37 (`SetObjectDefaults_Pod`,
//! `DefaultPodLevelResources`, and `PodRequests` of component-helpers v0.37.0) and is checked
//! against them (`fixtures/resources`). Knows nothing of workloads, replicas or nodes, nor of
//! what is decided only in a cluster: LimitRange defaults, RuntimeClass overhead, resource claims.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::quantity::Quantity;

/// A sum or product of a resource that no quantity can hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the total of {resource} is too large to count")]
pub(crate) struct OverflowError {
    pub(crate) resource: String,
}

/// Quantities by resource name, as in `requests` and `limits`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct ResourceList(BTreeMap<String, Quantity>);

impl<'de> Deserialize<'de> for ResourceList {
    /// `null` is the empty list, as to Go.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_default(deserializer).map(Self)
    }
}

impl FromIterator<(String, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (String, Quantity)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl ResourceList {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, resource: &str) -> Option<Quantity> {
        self.0.get(resource).copied()
    }

    pub(crate) fn contains(&self, resource: &str) -> bool {
        self.0.contains_key(resource)
    }

    pub(crate) fn insert(&mut self, resource: impl Into<String>, quantity: Quantity) {
        self.0.insert(resource.into(), quantity);
    }

    /// The entries by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0
            .iter()
            .map(|(resource, quantity)| (resource.as_str(), *quantity))
    }

    /// Adds every entry of the other list. On an error the list is partly summed; drop it.
    pub(crate) fn checked_add(&mut self, other: &Self) -> Result<(), OverflowError> {
        for (resource, quantity) in &other.0 {
            match self.0.get_mut(resource) {
                Some(sum) => *sum = sum.checked_add(*quantity).ok_or_else(overflow(resource))?,
                None => self.insert(resource, *quantity),
            }
        }
        Ok(())
    }

    /// The least that any so many pods of these kinds need: for each resource the smallest requests
    /// first. A bound that overstated the need would keep a gang out that fits. Nothing where no quantity
    /// holds it.
    pub(crate) fn least_of(kinds: &[(&Self, u64)], pods: u64) -> Option<Self> {
        let names = kinds.iter().flat_map(|(requests, _)| requests.iter());
        let names: BTreeSet<&str> = names.map(|(name, _)| name).collect();
        let mut total = Self::default();
        for name in names {
            let kinds = kinds.iter();
            let mut requests: Vec<(Option<Quantity>, u64)> = kinds
                .map(|(requests, count)| (requests.get(name), *count))
                .collect();
            requests.sort();
            let mut left = pods;
            let mut sum: Option<Quantity> = None;
            for (request, count) in requests {
                let taken = count.min(left);
                left -= taken;
                if let (Some(request), 1..) = (request, taken) {
                    let amount = request.checked_mul(taken)?;
                    sum = Some(match sum {
                        None => amount,
                        Some(sum) => sum.checked_add(amount)?,
                    });
                }
            }
            if let Some(sum) = sum {
                total.insert(name, sum);
            }
        }
        Some(total)
    }

    /// Takes every entry of the other list away, and no more than there is.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.subtract_times(other, 1);
    }

    /// The same so many times.
    pub(crate) fn subtract_times(&mut self, other: &Self, times: u64) {
        for (resource, quantity) in &other.0 {
            if let Some(left) = self.0.get_mut(resource) {
                let taken = quantity.checked_mul(times);
                *left = taken.map_or(Quantity::ZERO, |taken| left.less(taken));
            }
        }
    }

    /// Adds a whole number of one resource.
    pub(crate) fn add_units(&mut self, resource: &str, units: i64) {
        let units = Quantity::from_units(units);
        let sum = self.get(resource).and_then(|sum| sum.checked_add(units));
        self.insert(resource, sum.unwrap_or(units));
    }

    /// Takes a whole number of one resource away.
    pub(crate) fn subtract_units(&mut self, resource: &str, units: i64) {
        if let Some(left) = self.0.get_mut(resource) {
            *left = left.less(Quantity::from_units(units));
        }
    }

    /// Whether anything of it is not zero.
    pub(crate) fn has_any(&self) -> bool {
        self.0.values().any(|quantity| !quantity.is_zero())
    }

    /// Keeps the greater quantity of every resource; what only one list names is kept as it is.
    pub(crate) fn max_merge(&mut self, other: &Self) {
        for (resource, quantity) in &other.0 {
            let kept = self.get(resource).map(|kept| kept.max(*quantity));
            self.insert(resource, kept.unwrap_or(*quantity));
        }
    }

    /// As the API server stores it: rounded up to milli-units.
    fn stored(&self) -> Self {
        self.iter()
            .map(|(resource, quantity)| (resource.to_owned(), quantity.round_up_to_milli()))
            .collect()
    }

    /// Takes over what the other list names and this one does not.
    fn fill(&mut self, other: &Self) {
        for (resource, quantity) in &other.0 {
            self.0.entry(resource.clone()).or_insert(*quantity);
        }
    }
}

fn overflow(resource: &str) -> impl FnOnce() -> OverflowError + '_ {
    || OverflowError {
        resource: resource.to_owned(),
    }
}

/// The `resources` of a container or of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Requirements {
    pub(crate) requests: ResourceList,
    pub(crate) limits: ResourceList,
}

/// A container or init container, as far as counting needs it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Container<'a> {
    #[serde(borrow, deserialize_with = "text")]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "optional_text")]
    pub(crate) restart_policy: Option<Cow<'a, str>>,
    pub(crate) resources: Option<Requirements>,
}

impl Container<'_> {
    /// A native sidecar, where the container is an init container.
    fn restarts_always(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// A pod spec, as far as counting needs it; borrowed from a larger view, or read by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodResources<'a> {
    #[serde(borrow, deserialize_with = "own_containers")]
    pub(crate) containers: Cow<'a, [Container<'a>]>,
    #[serde(borrow, deserialize_with = "own_containers")]
    pub(crate) init_containers: Cow<'a, [Container<'a>]>,
    pub(crate) overhead: Cow<'a, ResourceList>,
    /// Pod-level resources: beta and on since Kubernetes 1.34.
    pub(crate) resources: Option<Cow<'a, Requirements>>,
}

fn own_containers<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Cow<'a, [Container<'a>]>, D::Error> {
    containers(deserializer).map(Cow::Owned)
}

fn or_default<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Borrows where it can. Serde by itself would copy the text of an `Option<Cow<str>>`.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// For a text that may be missing or `null`: embed it with `#[serde(borrow, default, deserialize_with)]`.
pub(crate) fn optional_text<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'a, str>>, D::Error> {
    Ok(Option::<Text<'a>>::deserialize(deserializer)?.map(|text| text.0))
}

/// For a text where `null` is the empty text.
pub(crate) fn text<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Cow<'a, str>, D::Error> {
    optional_text(deserializer).map(Option::unwrap_or_default)
}

/// A list of containers that is read by itself.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Containers<'a>(
    #[serde(borrow, deserialize_with = "containers")] pub Vec<Container<'a>>,
);

/// A pod has a few; of this many, each with a name, a node would run none other.
const MAX_CONTAINERS: usize = 1000;

/// For a list of containers where `null` is the empty list, and a `null` in it an empty container, as to Go.
fn containers<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Container<'a>>, D::Error> {
    struct ListVisitor;

    impl<'de> Visitor<'de> for ListVisitor {
        type Value = Vec<Container<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut list = Vec::new();
            while let Some(container) = seq.next_element::<Option<Container<'de>>>()? {
                if list.len() == MAX_CONTAINERS {
                    let why = format!("more than {MAX_CONTAINERS} containers, which no pod has");
                    return Err(A::Error::custom(why));
                }
                list.push(container.unwrap_or_default());
            }
            Ok(list)
        }
    }

    deserializer.deserialize_any(ListVisitor)
}

/// What the pod takes from a node in the eyes of kube-scheduler.
///
/// Resource names with a quantity of zero stay in the list, as they do there.
pub(crate) fn pod_requests(pod: &PodResources<'_>) -> Result<ResourceList, OverflowError> {
    let mut total = aggregate(pod, container_requests)?;
    if let Some(resources) = &pod.resources {
        let pod_level = pod_level_requests(pod, resources, &total)?;
        total.0.extend(pod_level.0);
    }
    total.checked_add(&pod.overhead.stored())?;
    Ok(total)
}

/// A container's requests after defaulting: a limit stands in where no request is given.
fn container_requests(resources: &Requirements) -> ResourceList {
    let mut requests = resources.requests.stored();
    requests.fill(&resources.limits.stored());
    requests
}

/// All containers together, as `aggregateContainerResourcesByFn` (component-helpers v0.37.0).
fn aggregate(
    pod: &PodResources<'_>,
    list: impl Fn(&Requirements) -> ResourceList,
) -> Result<ResourceList, OverflowError> {
    let list = |container: &Container<'_>| container.resources.as_ref().map(&list);
    let mut total = ResourceList::new();
    for resources in pod.containers.iter().filter_map(list) {
        total.checked_add(&resources)?;
    }
    let mut sidecars = ResourceList::new();
    let mut start = ResourceList::new();
    for container in pod.init_containers.iter() {
        let mut resources = list(container).unwrap_or_default();
        if container.restarts_always() {
            // A sidecar runs beside the containers, and beside the init containers after it.
            total.checked_add(&resources)?;
            sidecars.checked_add(&resources)?;
            start.max_merge(&sidecars);
        } else {
            resources.checked_add(&sidecars)?;
            start.max_merge(&resources);
        }
    }
    total.max_merge(&start);
    Ok(total)
}

/// The pod-level requests that take the place of the containers' sum.
///
/// Cpu and memory without a pod-level request keep the containers' sum if there is one, and are the
/// pod-level limit otherwise. Huge pages cannot be overcommitted: without a pod-level request they
/// are the pod-level limit, whatever the containers ask, and without that the containers' limits
/// (`DefaultPodLevelResources`, Kubernetes 1.37; the path it replaces, in `SetDefaults_Pod`, has the
/// same rules).
fn pod_level_requests(
    pod: &PodResources<'_>,
    resources: &Requirements,
    sum: &ResourceList,
) -> Result<ResourceList, OverflowError> {
    let mut requests = resources.requests.stored();
    let mut limits = resources.limits.stored();
    if requests.is_empty() && limits.is_empty() {
        return Ok(requests);
    }
    limits
        .0
        .retain(|resource, _| is_huge_page(resource) || !sum.contains(resource));
    requests.fill(&limits);
    let mut huge_pages = aggregate(pod, |resources| resources.limits.stored())?;
    huge_pages.0.retain(|resource, _| is_huge_page(resource));
    requests.fill(&huge_pages);
    requests
        .0
        .retain(|resource, _| resource == "cpu" || resource == "memory" || is_huge_page(resource));
    Ok(requests)
}

fn is_huge_page(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

#[cfg(test)]
mod tests;
