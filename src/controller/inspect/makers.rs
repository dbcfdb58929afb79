//! From what makes pods or workloads (a Deployment, a CronJob) to the gangs of what it makes.

use super::listing::{self, all};
use super::named::{Answer, facts_of, metadata, parent};
use super::{Inspected, Inspector, watched_kind};
use crate::controller::cache::stored::Stored;
use crate::controller::owners::controller_of;
use crate::workload::facts::Watched;
use crate::workload::object::{self, Made};
use crate::workload::{Facts, Kind, Object, keys, pods};

/// More of what made pods is not asked for.
const MAX_MAKERS: usize = 64;

/// A controller has another above it, and that perhaps one more.
const MAX_STEPS: usize = 4;

impl Inspector {
    /// What is in no gang itself: another workload is above it, or it makes pods or workloads, or what
    /// is above it does.
    pub(super) async fn maker(
        &mut self,
        kind: &'static Kind,
        stored: &Stored,
    ) -> Result<Answer, kube::Error> {
        if let Some(found) = self.made_by(kind, stored).await? {
            return Ok(found);
        }
        let mut below = controller_of(&metadata(stored));
        for _ in 0..MAX_STEPS {
            let Some(next) = below else { break };
            let group = next.api_version.split_once('/');
            let group = group.map_or("", |(group, _)| group);
            let Some(above) = object::kind_of(group, &next.kind) else {
                break;
            };
            let found = self.get(above, stored.namespace(), &next.name).await?;
            let Some(controller) = found.filter(|found| found.uid() == next.uid) else {
                break;
            };
            if let Some(found) = self.made_by(above, &controller).await? {
                return Ok(found.of(kind, stored, above.name, controller.name()));
            }
            below = controller_of(&metadata(&controller));
        }
        Ok(Answer::NoGang(asks_for_none(kind, stored.name())))
    }

    /// The gangs of what something makes, or of the workload that it was made for; nothing where it
    /// declares none itself.
    async fn made_by(
        &mut self,
        kind: &'static Kind,
        stored: &Stored,
    ) -> Result<Option<Answer>, kube::Error> {
        let namespace = stored.namespace();
        if let Some((facts, name)) = parent(&metadata(stored)).filter(|(f, _)| f.kind != kind)
            && self.serves(facts)
            && let Some(above) = self.get(facts.kind, namespace, &name).await?
            && let Some(found) = self.one(facts, &above).await?
        {
            let found = Answer::found(found);
            return Ok(Some(found.of(kind, stored, facts.kind.name, &name)));
        }
        let object = Object::read(kind, stored.text());
        let template = object.maker().and_then(|maker| maker.template);
        if let Some(Made::Workload(workload, _)) = template {
            let workloads = self.workloads_of(workload.facts(), stored).await?;
            return Ok(Some(match workloads.is_empty() {
                false => Answer::all(workloads),
                true => Answer::NoGang(format!(
                    "the {} {} has no {} now whose pods are a gang",
                    kind.name,
                    stored.name(),
                    workload.facts().kind.name
                )),
            }));
        }
        let workloads = self.gangs_of(stored).await?;
        if !workloads.is_empty() {
            return Ok(Some(Answer::all(workloads)));
        }
        Ok(match template {
            Some(Made::Pods(declaring)) => {
                let unmade = self.unmade(kind, stored, &declaring).await?;
                Some(Answer::found(unmade))
            }
            _ => None,
        })
    }

    /// The workloads that something has made.
    async fn workloads_of(
        &mut self,
        facts: &'static Facts,
        maker: &Stored,
    ) -> Result<Vec<Inspected>, kube::Error> {
        let namespace = Some(maker.namespace());
        let made = listing::workloads(&self.client, facts, namespace, &mut self.unseen).await?;
        let its = |workload: &&Stored| {
            let controller = controller_of(&metadata(workload));
            controller.is_some_and(|controller| controller.uid == maker.uid())
        };
        let mut found = Vec::new();
        for workload in made.iter().filter(its).take(MAX_MAKERS) {
            found.extend(self.one(facts, workload).await?);
        }
        Ok(found)
    }

    /// The gangs that pods declare which something has made, itself or by another controller.
    async fn gangs_of(&mut self, maker: &Stored) -> Result<Vec<Inspected>, kube::Error> {
        let namespace = maker.namespace();
        let Some(facts) = facts_of(&pods::KIND) else {
            return Ok(Vec::new());
        };
        let kind = watched_kind::api_resource(facts);
        let api = listing::api::<Stored>(&self.client, Some(namespace), &kind);
        let members = watched_kind::members(facts);
        let pods = match all(&api, &members, "pods", &mut self.unseen).await {
            Ok(pods) => pods,
            Err(error) if listing::is_forbidden(&error) => {
                self.unseen.push("pods", &error);
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let (mut names, mut asked) = (Vec::new(), Vec::new());
        for seen in pods
            .iter()
            .filter_map(|pod| pods::seen(pod.text(), namespace))
        {
            let controller = seen.own.as_ref().and_then(|own| own.controller.clone());
            let (name, Some(controller)) = (seen.gang.workload.clone(), controller) else {
                continue;
            };
            let pair = (name, controller);
            if names.contains(&pair.0) || asked.contains(&pair) || asked.len() >= MAX_MAKERS {
                continue;
            }
            if self
                .owners
                .is_above(namespace, maker.uid(), &pair.1)
                .await?
            {
                names.push(pair.0.clone());
            }
            asked.push(pair);
        }
        let mut found = Vec::new();
        for name in names {
            found.extend(self.declared(namespace, &name).await?);
        }
        Ok(found)
    }
}

/// What something lacks that asks for no gang: a workload has modes, pods declare theirs.
fn asks_for_none(kind: &Kind, name: &str) -> String {
    let itself = kind.name;
    let workload = facts_of(kind).filter(|facts| facts.watched != Watched::ByMembers);
    match workload {
        Some(_) => format!(
            "the {itself} {name} asks for no gang: the annotation {} on the {itself} would",
            keys::GANG_MODE
        ),
        None => format!(
            "the pods of the {itself} {name} are no gang: its template does not declare one ({}, {})",
            keys::GANG_NAME,
            keys::MIN_COUNT
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::KINDS;

    #[test]
    fn what_asks_for_no_gang_is_told_how_to_ask() {
        for entry in KINDS {
            let said = asks_for_none(entry.kind, "plain");
            let is_workload =
                facts_of(entry.kind).is_some_and(|facts| facts.watched != Watched::ByMembers);
            let key = match is_workload {
                true => keys::GANG_MODE,
                false => keys::GANG_NAME,
            };
            assert!(said.contains(key), "{said}");
        }
        let said = asks_for_none(KINDS[0].kind, "plain").replace(KINDS[0].kind.name, "KIND");
        insta::assert_snapshot!(said, @"the KIND plain asks for no gang: the annotation muster.dev/gang-mode on the KIND would");
    }
}
