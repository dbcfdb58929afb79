//! The start barrier as annotations, and the names that it keeps for itself. The same for every kind
//! that has one.

use std::time::Duration;

use crate::gang::barrier::{CLOCK_VOLUME, CONTAINER, VOLUME};
use crate::gang::{FieldError, FieldPath, Located};
use crate::workload::keys;
use crate::workload::template::PodTemplate;
use crate::workload::view::Meta;

/// How long a pod waits at the barrier, where one is asked for; nothing inside where that cannot be
/// read.
pub(crate) fn timeout(
    meta: &Meta<'_>,
    at: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Option<Located<Option<Duration>>> {
    meta.annotations.as_ref()?.get(keys::START_BARRIER)?;
    let timeout = super::go_duration(meta, at, keys::START_BARRIER, errors);
    let timeout = timeout.map(|timeout| timeout.value);
    Some(Located::new(timeout, at.key(keys::START_BARRIER)))
}

/// Refuses containers and volumes of the barrier's names, unless Muster has put them there, and pods that
/// cannot have its container.
pub(crate) fn check_pods(template: &PodTemplate<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let meta = template.metadata.as_ref();
    let ours = meta.is_some_and(|meta| meta.annotation(keys::BARRIER_STAMP).is_some());
    let pod = &template.spec;
    let at = at.child("spec");
    if pod.is_windows() {
        let why = "the container of a start barrier is one for Linux; leave these pods out of it";
        errors.push(FieldError::forbidden(at.child("os"), why));
    }
    let reserved = |list: &str, i: usize| {
        let detail = "the name is reserved for the start barrier; choose another";
        FieldError::forbidden(at.child(list).index(i).child("name"), detail)
    };
    let containers = [
        ("containers", pod.containers.read().0),
        ("initContainers", pod.init_containers.read().0),
    ];
    for (list, containers) in containers {
        if ours && list == "initContainers" {
            continue;
        }
        let named = containers.iter().enumerate();
        let named = named.filter(|(_, c)| c.name == CONTAINER);
        errors.extend(named.map(|(i, _)| reserved(list, i)));
    }
    let volumes = pod.volumes.read();
    let volumes = volumes.iter().enumerate();
    let volumes = volumes.filter(|(_, v)| !ours && [VOLUME, CLOCK_VOLUME].contains(&&*v.name));
    errors.extend(volumes.map(|(i, _)| reserved("volumes", i)));
}
