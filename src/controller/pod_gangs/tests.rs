use serde_json::{Value, json};

use super::*;
use crate::gang::keys;
use crate::workload::pods::example;

/// What the watches feed, and what came of it.
struct Watches {
    pods: Arc<ByOwner<SeenPod>>,
    objects: Arc<ByOwner<Arc<DynamicObject>>>,
    gangs: Arc<PodGangs>,
    told: mpsc::UnboundedReceiver<watcher::Result<Event<Stored>>>,
}

impl Watches {
    fn new() -> Self {
        let (pods, objects) = (Arc::default(), Arc::default());
        let all = vec![Arc::clone(&objects)];
        let (gangs, mut told) = PodGangs::new(Arc::clone(&pods), all);
        assert!(matches!(told.try_recv(), Ok(Ok(Event::Init))));
        assert!(matches!(told.try_recv(), Ok(Ok(Event::InitDone))));
        Self {
            pods,
            objects,
            gangs,
            told,
        }
    }

    fn pod(&mut self, event: Event<&Value>) -> Vec<String> {
        let event = map(event, Stored::new);
        self.pods.follow(&event, keep_pod);
        self.gangs.pod_changed(&Ok(event));
        self.said()
    }

    fn object(&mut self, event: fn(DynamicObject) -> Event<DynamicObject>) -> Vec<String> {
        let object = json!({"metadata": {
            "namespace": "ml", "name": "ring-0", "labels": {keys::GANG_NAME: "ring"},
        }});
        let event = event(serde_json::from_value(object).unwrap());
        self.objects.follow(&event, |object| {
            Some(Kept {
                owners: vec!["ring".to_owned()],
                value: Arc::new(object.clone()),
            })
        });
        self.gangs.object_changed(&Ok(event));
        self.said()
    }

    /// The gangs that were told since, with their timeout; "gone" where one is no more.
    fn said(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Ok(Ok(event)) = self.told.try_recv() {
            said.push(match event {
                Event::Apply(gang) => {
                    assert_eq!((gang.namespace(), gang.name()), ("ml", "ring"));
                    gang.annotation(keys::TIMEOUT).unwrap_or("-").to_owned()
                }
                Event::Delete(_) => "gone".to_owned(),
                other => panic!("{other:?}"),
            });
        }
        said
    }
}

fn map(event: Event<&Value>, read: fn(&Value) -> Stored) -> Event<Stored> {
    match event {
        Event::Apply(pod) => Event::Apply(read(pod)),
        Event::Delete(pod) => Event::Delete(read(pod)),
        Event::InitApply(pod) => Event::InitApply(read(pod)),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    }
}

fn pod(name: &str, timeout: &str) -> Value {
    let mut pod = example::stored(name, 2, "1");
    pod["metadata"]["annotations"][keys::TIMEOUT] = json!(timeout);
    pod
}

fn going(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!("2026-11-17T00:01:00Z");
    pod
}

#[test]
fn a_gang_appears_with_its_first_pod_and_goes_when_neither_pods_nor_objects_are_left() {
    let mut watches = Watches::new();
    let (a, b) = (pod("a", "1h"), pod("b", "1h"));
    assert_eq!(watches.pod(Event::Apply(&a)), ["1h"]);
    assert_eq!(watches.object(Event::Apply), ["1h"]);
    assert_eq!(watches.pod(Event::Apply(&b)), ["1h"]);
    assert_eq!(watches.pod(Event::Delete(&a)), ["1h"]);
    // Its object is still to be deleted, and that takes a look.
    assert_eq!(watches.pod(Event::Delete(&b)), ["1h"]);
    assert_eq!(watches.object(Event::Delete), ["gone"]);
    assert!(watches.gangs.lock().is_empty());
    assert!(watches.object(Event::Delete).is_empty());
}

#[test]
fn what_the_first_pod_says_counts_until_it_goes() {
    let mut watches = Watches::new();
    let (a, b, c) = (pod("a", "1h"), pod("b", "2h"), pod("c", "3h"));
    assert_eq!(watches.pod(Event::Apply(&b)), ["2h"]);
    assert_eq!(watches.pod(Event::Apply(&c)), ["2h"]);
    assert_eq!(watches.pod(Event::Apply(&a)), ["1h"]);
    assert_eq!(watches.pod(Event::Apply(&b)), ["1h"]);
    assert_eq!(watches.pod(Event::Apply(&pod("a", "4h"))), ["4h"]);
    assert_eq!(watches.pod(Event::Apply(&going(pod("a", "4h")))), ["4h"]);
    assert_eq!(watches.pod(Event::Apply(&c)), ["3h"]);
    assert_eq!(watches.pod(Event::Apply(&b)), ["2h"]);
}

#[test]
fn what_was_deleted_while_nobody_watched_is_gone_and_what_it_left_is_looked_at() {
    let mut watches = Watches::new();
    let (a, b) = (pod("a", "1h"), pod("b", "2h"));
    for event in [Event::Init, Event::InitApply(&a), Event::InitApply(&b)] {
        assert!(watches.pod(event).is_empty(), "the list is not complete");
    }
    assert_eq!(watches.pod(Event::InitDone), ["1h"]);
    watches.object(Event::Apply);
    for event in [Event::Init, Event::InitApply(&b)] {
        watches.pod(event);
    }
    assert_eq!(watches.pod(Event::InitDone), ["2h"]);
    watches.pod(Event::Init);
    assert_eq!(watches.pod(Event::InitDone), ["2h"], "an object is left");
    assert_eq!(watches.object(Event::Delete), ["gone"]);

    // Muster was down: the object is all that is found.
    let mut watches = Watches::new();
    watches.object(|_| Event::Init);
    watches.object(Event::InitApply);
    assert_eq!(watches.object(|_| Event::InitDone), ["-"]);
    assert_eq!(watches.object(Event::Delete), ["gone"]);
}

#[test]
fn a_pod_that_muster_has_not_admitted_is_nobodys() {
    let mut watches = Watches::new();
    let mut stranger = pod("a", "1h");
    stranger["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(keys::STAMP);
    assert!(watches.pod(Event::Apply(&stranger)).is_empty());
}
