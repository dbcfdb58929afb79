//! A link: the key that ties a pod to a gang.
//!
//! Two sides use links: a workload adapter must notice one that the user wrote, and a backend
//! writes its own. The list of links, and what their values mean, is in the backends' files.

use super::policy::SchedulerKind;

/// Where a link is written on a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkPlace {
    /// A label of the pod.
    Label,
    /// An annotation of the pod.
    Annotation,
    /// A field of the pod's spec.
    Field,
}

/// Who writes a link, besides users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkWriter {
    /// Muster alone.
    Muster,
    /// Controllers of workloads too, for gangs that they make themselves.
    ControllersToo,
}

/// One way to tie a pod to a gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkKey {
    /// Whose gangs it links to.
    pub scheduler: SchedulerKind,
    /// Where it stands.
    pub(crate) place: LinkPlace,
    /// The key, or the name of the field.
    pub key: &'static str,
    /// Who writes it.
    pub(crate) writer: LinkWriter,
}

impl LinkKey {
    /// A link that is a label.
    pub(crate) const fn label(scheduler: SchedulerKind, key: &'static str) -> Self {
        Self::new(scheduler, LinkPlace::Label, key)
    }

    /// A link that is an annotation.
    pub(crate) const fn annotation(scheduler: SchedulerKind, key: &'static str) -> Self {
        Self::new(scheduler, LinkPlace::Annotation, key)
    }

    /// A link that is a field of the pod's spec.
    pub(crate) const fn field(scheduler: SchedulerKind, key: &'static str) -> Self {
        Self::new(scheduler, LinkPlace::Field, key)
    }

    /// The same link, marked as one that controllers of workloads write too.
    pub(crate) const fn shared(self) -> Self {
        Self {
            writer: LinkWriter::ControllersToo,
            ..self
        }
    }

    const fn new(scheduler: SchedulerKind, place: LinkPlace, key: &'static str) -> Self {
        Self {
            scheduler,
            place,
            key,
            writer: LinkWriter::Muster,
        }
    }
}
