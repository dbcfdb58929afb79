use super::*;

/// A role whose pods have these labels and terms.
fn group(labels: Value, kind: &str, terms: Value) -> TaskGroup {
    let value = json!({"labels": labels, "affinity": {kind: {REQUIRED: terms}}});
    match value {
        Value::Object(group) => group,
        _ => TaskGroup::new(),
    }
}

/// What the pod and its placeholders are told.
fn told(labels: Value, kind: &str, terms: Value) -> (TaskGroup, TaskGroup) {
    let mut groups = vec![("workers".to_owned(), group(labels, kind, terms))];
    let app = Labels::from([(APPLICATION.key.to_owned(), "app-0".to_owned())]);
    share_labels(&mut groups, &app);
    confine(&mut groups, "app-0", "ml");
    let pod = groups[0].1.clone();
    as_placeholders(&mut groups, "app-0", "ml");
    (pod, groups.remove(0).1)
}

fn selectors(group: &TaskGroup, kind: &str) -> Vec<Value> {
    let terms = required(group, kind);
    terms.map(|term| term["labelSelector"].clone()).collect()
}

fn near(labels: Value) -> Value {
    json!({"topologyKey": "rack", "labelSelector": {"matchLabels": labels}})
}

#[test]
fn pods_that_seek_their_like_seek_their_own_gang() {
    let terms = json!([near(json!({"app": "train"}))]);
    let (pod, placeholder) = told(json!({"app": "train", "x": "y"}), NEAR, terms);
    let ours = json!({"key": "yunikorn.apache.org/app-id", "operator": "In", "values": ["app-0"]});
    let expected = json!({"matchLabels": {"app": "train"}, "matchExpressions": [ours]});
    assert_eq!(selectors(&pod, NEAR), [expected]);
    let expected = json!({"matchExpressions": [
        {"key": "placeholder.muster.dev/app", "operator": "In", "values": ["train"]},
        {"key": "placeholder.muster.dev/yunikorn.apache.org_app-id", "operator": "In",
            "values": ["app-0"]},
        {"key": MARK, "operator": "Exists"},
    ]});
    assert_eq!(selectors(&placeholder, NEAR), [expected]);
    let expected = json!({MARK: "app-0", "placeholder.muster.dev/app": "train",
        "placeholder.muster.dev/yunikorn.apache.org_app-id": "app-0"});
    assert_eq!(placeholder["labels"], expected);
}

#[test]
fn what_is_confined_once_stays_as_it_is() {
    let terms = json!([near(json!({"app": "train"}))]);
    let (pod, placeholder) = told(json!({"app": "train"}), NEAR, terms);
    let terms = Value::Array(required(&pod, NEAR).cloned().collect());
    assert_eq!(
        told(json!({"app": "train"}), NEAR, terms),
        (pod, placeholder)
    );
}

/// InterPodAffinity counts pods that match all terms.
#[test]
fn what_only_pods_of_others_fulfil_is_asked_of_them() {
    let elsewhere = json!({"topologyKey": "rack", "namespaces": ["data"],
        "labelSelector": {"matchLabels": {"app": "train"}}});
    for terms in [
        json!([near(json!({"app": "dataset"}))]),
        json!([
            near(json!({"app": "train"})),
            near(json!({"app": "dataset"}))
        ]),
        json!([elsewhere]),
    ] {
        let (pod, placeholder) = told(json!({"app": "train"}), NEAR, terms.clone());
        assert_eq!(required(&pod, NEAR).cloned().collect::<Value>(), terms);
        for selector in selectors(&placeholder, NEAR) {
            assert_eq!(selector["matchExpressions"][0]["key"], "app");
        }
    }
}

#[test]
fn pods_that_want_to_be_alone_do_not_mind_their_placeholders() {
    let all = json!([{"topologyKey": "host", "labelSelector": {}}]);
    let (pod, placeholder) = told(json!({"app": "train"}), APART, all);
    let pods = json!({"key": MARK, "operator": "NotIn", "values": ["app-0"]});
    assert_eq!(
        selectors(&pod, APART),
        [json!({"matchExpressions": [&pods]})]
    );
    let others = json!({"key": "yunikorn.apache.org/app-id", "operator": "NotIn",
        "values": ["app-0"]});
    let [of_others, among] = &selectors(&placeholder, APART)[..] else {
        panic!("{placeholder:?}");
    };
    assert_eq!(*of_others, json!({"matchExpressions": [pods, others]}));
    let marked = json!({"key": MARK, "operator": "Exists"});
    assert_eq!(among["matchExpressions"][1], marked);
}

/// What YuniKorn itself writes on placeholders does not keep their pods away.
#[test]
fn a_term_that_means_all_applications_does_not_mean_the_own_placeholders() {
    let apps = json!({"matchExpressions": [{"key": APPLICATION.key, "operator": "Exists"}]});
    let terms = json!([{"topologyKey": "host", "labelSelector": apps}]);
    let (pod, _) = told(json!({}), APART, terms);
    let pods = json!({"key": MARK, "operator": "NotIn", "values": ["app-0"]});
    assert_eq!(selectors(&pod, APART)[0]["matchExpressions"][1], pods);
}

/// The apiserver refuses a key that is in both.
#[test]
fn what_the_user_holds_to_the_application_is_not_said_twice() {
    let mut term = near(json!({"app": "train"}));
    term["matchLabelKeys"] = json!([APPLICATION.key]);
    let terms = json!([term]);
    let (pod, _) = told(json!({"app": "train"}), NEAR, terms.clone());
    assert_eq!(required(&pod, NEAR).cloned().collect::<Value>(), terms);
}

/// How a constraint reads for the pod and its placeholders, in a gang of so many pods.
fn spread_over(pods: u64, selector: Value) -> [Value; 2] {
    let constraint = json!({"whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector});
    let app = Labels::from([(APPLICATION.key.to_owned(), "app-0".to_owned())]);
    let Value::Object(group) =
        json!({LABELS: {"app": "train"}, MEMBERS: pods, SPREAD: [constraint]})
    else {
        panic!("not a group");
    };
    let mut groups = vec![("workers".to_owned(), group)];
    share_labels(&mut groups, &app);
    confine(&mut groups, "app-0", "ml");
    let pod = groups[0].1[SPREAD][0]["labelSelector"].clone();
    as_placeholders(&mut groups, "app-0", "ml");
    [pod, groups[0].1[SPREAD][0]["labelSelector"].clone()]
}

#[test]
fn a_gang_is_spread_by_itself_and_what_does_not_count_it_is_left_alone() {
    let ours = json!({"key": APPLICATION.key, "operator": "In", "values": ["app-0"]});
    let like = json!({"matchLabels": {"app": "train"}});
    let [pod, placeholder] = spread_over(3, like.clone());
    assert_eq!(pod["matchExpressions"], json!([ours]));
    assert_eq!(
        placeholder["matchExpressions"][0]["key"],
        "placeholder.muster.dev/app"
    );
    // It spreads the single pods of several gangs.
    let [pod, placeholder] = spread_over(1, like.clone());
    assert_eq!(pod, like);
    assert_eq!(placeholder["matchExpressions"][0]["key"], "app");
    // Pods of others, and nothing at all (PodTopologySpread).
    for selector in [json!({"matchLabels": {"app": "web"}}), json!({})] {
        let [pod, placeholder] = spread_over(3, selector.clone());
        assert_eq!(pod, selector);
        let text = placeholder.to_string();
        assert!(!text.contains(MARK), "{text}");
    }
    // Its own placeholders would be counted too.
    let [pod, _] = spread_over(
        3,
        json!({"matchExpressions": [
            {"key": "app", "operator": "NotIn", "values": ["web"]},
        ]}),
    );
    let pods = json!({"key": MARK, "operator": "NotIn", "values": ["app-0"]});
    assert_eq!(pod["matchExpressions"][2], pods);
}

#[test]
fn a_gang_without_such_wishes_is_described_without_labels() {
    let mut plain = TaskGroup::new();
    plain.insert(LABELS.to_owned(), json!({"app": "train"}));
    let soft = json!([{"whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]);
    plain.insert(SPREAD.to_owned(), soft);
    let mut groups = vec![("workers".to_owned(), plain)];
    as_placeholders(&mut groups, "app-0", "ml");
    assert_eq!(groups[0].1, TaskGroup::new());
}

#[test]
fn a_key_that_is_too_long_for_a_name_is_still_one() {
    let long = format!("{}/{}", "a".repeat(60), "b".repeat(60));
    let mirror = mirrored(&long);
    assert_ne!(mirror, mirrored(&format!("{long}b")));
    assert!(mirror.len() <= PREFIX.len() + 63, "{mirror}");
    assert_eq!(mirrored("a.io/b"), "placeholder.muster.dev/a.io_b");
}

#[test]
fn what_cannot_be_read_is_left_as_it_is() {
    for term in [
        json!(7),
        json!({"labelSelector": null}),
        json!({"labelSelector": {"matchLabels": {"a": 1}}}),
    ] {
        let (_, group) = told(json!({}), APART, json!([term]));
        let terms: Vec<&Value> = required(&group, APART).collect();
        assert_eq!(terms, [&term]);
    }
}
