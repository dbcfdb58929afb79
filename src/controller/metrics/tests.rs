//! What the reconciler counts, as a scrape shows it.

use std::time::Duration;

use prometheus_client::encoding::text;

use super::*;
use crate::controller::decide::{GangStatus, State};
use crate::explain::Cause;

const MINUTE: Duration = Duration::from_secs(60);

/// Metrics, and how they are scraped.
struct Scraped {
    registry: Registry,
    metrics: Metrics,
    leadership: watch::Sender<Leadership>,
}

impl Scraped {
    fn new() -> Self {
        let (leadership, leads) = watch::channel(Leadership::Follower);
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, leads);
        Self {
            registry,
            metrics,
            leadership,
        }
    }

    fn of(&self, kind: &'static str) -> OfKind {
        let all = self.metrics.clone();
        OfKind { kind, all }
    }

    fn page(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// The sum of the series that begin so.
    fn sum(&self, series: &str) -> f64 {
        let page = self.page();
        let lines = page.lines().filter(|line| line.starts_with(series));
        let values = lines.map(|line| line.rsplit(' ').next().unwrap());
        values.map(|value| value.parse::<f64>().unwrap()).sum()
    }
}

fn stand(of: &OfKind, uid: &str, actions: &Actions) {
    of.stand(uid, actions, &[]);
}

fn gang(name: &str, state: State) -> GangStatus {
    GangStatus {
        name: name.to_owned(),
        state,
        ..GangStatus::example()
    }
}

/// One that has waited for so long.
fn waiting(name: &str, waited: Duration) -> GangStatus {
    GangStatus {
        waited: Some(waited),
        ..gang(name, State::Waiting)
    }
}

fn gangs(gangs: &[GangStatus]) -> Actions {
    Actions {
        gangs: gangs.to_vec(),
        ..Actions::default()
    }
}

#[test]
fn gangs_are_counted_by_state_scheduler_and_first_cause() {
    let scraped = Scraped::new();
    let jobs = scraped.of("Job");
    let two = gangs(&[waiting("a", MINUTE), gang("b", State::Scheduled)]);
    stand(&jobs, "1", &two);
    stand(&jobs, "2", &gangs(&[waiting("c", MINUTE)]));
    let scheduler = scheduler::names()[0];
    let waiting = format!(
        "muster_gangs{{state=\"waiting\",scheduler=\"{scheduler}\",cause=\"GangWaiting\"}} 2\n"
    );
    let page = scraped.page();
    assert!(page.contains(&waiting), "{page}");
    assert_eq!(scraped.sum("muster_gangs{"), 3.0);
    let caused = GangStatus {
        causes: vec![Cause::NoNodes, Cause::Unknown],
        ..self::waiting("c", MINUTE)
    };
    stand(&jobs, "2", &gangs(&[caused]));
    let by_cause = |cause: &str| {
        let series = "muster_gangs{state=\"waiting\"";
        scraped.sum(&format!(
            "{series},scheduler=\"{scheduler}\",cause=\"{cause}\""
        ))
    };
    assert_eq!([by_cause("NoNodes"), by_cause("GangWaiting")], [1.0, 1.0]);
    stand(&jobs, "1", &gangs(&[gang("a", State::Scheduled)]));
    assert_eq!(scraped.sum("muster_gangs{state=\"waiting\""), 1.0);
    assert_eq!(scraped.sum("muster_gangs{state=\"scheduled\""), 1.0);
}

#[test]
fn a_workload_that_is_gone_is_counted_no_longer() {
    let scraped = Scraped::new();
    let (jobs, pods) = (scraped.of("Job"), scraped.of("Pod"));
    for uid in ["1", "2", "3"] {
        stand(&jobs, uid, &gangs(&[waiting("a", MINUTE)]));
    }
    stand(&pods, "4", &gangs(&[gang("a", State::Empty)]));
    jobs.forget("1");
    assert_eq!(scraped.sum("muster_gangs{"), 3.0);
    // A list of one kind says nothing of another.
    jobs.keep_only(&HashSet::from(["3".to_owned()]));
    assert_eq!(scraped.sum("muster_gangs{"), 2.0);
    stand(&jobs, "3", &Actions::default());
    pods.keep_only(&HashSet::new());
    assert!(scraped.metrics.standings.is_empty());
}

#[test]
fn a_replica_that_leads_no_more_counts_no_gang() {
    let scraped = Scraped::new();
    let troubled = Actions {
        broken: Some("it is not held together".to_owned()),
        refused: Some("it has no stamp".to_owned()),
        ..gangs(&[waiting("a", MINUTE)])
    };
    stand(&scraped.of("Job"), "1", &troubled);
    assert_eq!(scraped.sum("muster_troubled_workloads{"), 2.0);
    assert!(scraped.sum("muster_gang_oldest_wait_seconds") >= 60.0);
    scraped.metrics.clear();
    assert_eq!(scraped.sum("muster_gangs{"), 0.0);
    assert_eq!(scraped.sum("muster_troubled_workloads{"), 0.0);
    assert_eq!(scraped.sum("muster_gang_oldest_wait_seconds"), 0.0);
}

#[test]
fn a_wait_is_counted_when_its_gang_is_placed_and_not_before() {
    let scraped = Scraped::new();
    let jobs = scraped.of("Job");
    let count = || scraped.sum("muster_gang_wait_seconds_count{");
    let sum = || scraped.sum("muster_gang_wait_seconds_sum{");
    stand(&jobs, "1", &gangs(&[gang("a", State::Empty)]));
    stand(&jobs, "1", &gangs(&[waiting("a", MINUTE)]));
    stand(&jobs, "1", &gangs(&[waiting("a", 2 * MINUTE)]));
    assert_eq!(count(), 0.0);
    stand(&jobs, "1", &gangs(&[gang("a", State::Scheduled)]));
    assert_eq!(count(), 1.0);
    assert!((120.0..130.0).contains(&sum()), "{}", sum());
    stand(&jobs, "1", &gangs(&[gang("a", State::Scheduled)]));
    assert_eq!(count(), 1.0, "once");
    stand(&jobs, "1", &gangs(&[waiting("a", MINUTE)]));
    stand(&jobs, "1", &gangs(&[gang("a", State::Scheduled)]));
    assert_eq!(count(), 2.0, "a gang that has run may wait again");
}

#[test]
fn a_gang_that_was_placed_before_anybody_looked_is_no_wait() {
    let scraped = Scraped::new();
    let jobs = scraped.of("Job");
    stand(&jobs, "1", &gangs(&[gang("a", State::Scheduled)]));
    assert_eq!(scraped.sum("muster_gang_wait_seconds_count{"), 0.0);
    // One that is placed between two looks waited for a moment.
    stand(&jobs, "2", &gangs(&[gang("a", State::Empty)]));
    stand(&jobs, "2", &gangs(&[gang("a", State::Scheduled)]));
    assert_eq!(scraped.sum("muster_gang_wait_seconds_count{"), 1.0);
    assert!(scraped.sum("muster_gang_wait_seconds_sum{") < 1.0);
}

#[test]
fn the_oldest_wait_grows_between_looks_and_ends_with_its_gang() {
    let standings = Standings::default();
    let start = Instant::now();
    let look = |uid: &str, gang: GangStatus| {
        let look = Look {
            kind: "Job",
            actions: &gangs(&[gang]),
            obstacles: &[],
            now: start,
        };
        standings.note(uid, &look);
    };
    look("1", waiting("a", MINUTE));
    look("2", waiting("b", 5 * MINUTE));
    look("3", gang("c", State::Empty));
    assert_eq!(standings.oldest_wait(start), 5 * MINUTE);
    assert_eq!(standings.oldest_wait(start + MINUTE), 6 * MINUTE);
    look("2", gang("b", State::Scheduled));
    assert_eq!(standings.oldest_wait(start + MINUTE), 2 * MINUTE);
    standings.forget("1");
    assert_eq!(standings.oldest_wait(start + MINUTE), Duration::ZERO);
}

#[test]
fn a_workload_whose_objects_are_refused_is_in_trouble_until_they_are_not() {
    let scraped = Scraped::new();
    let jobs = scraped.of("Job");
    let refused = || scraped.sum("muster_troubled_workloads{trouble=\"refused\"}");
    let waits = gangs(&[waiting("a", MINUTE)]);
    jobs.stand("1", &waits, &["a quota is used up".to_owned()]);
    jobs.stand("1", &waits, &["a quota is used up".to_owned()]);
    assert_eq!(refused(), 1.0);
    jobs.stand("1", &waits, &[]);
    assert_eq!(refused(), 0.0);
}

#[test]
fn whether_a_replica_leads_is_asked_at_each_scrape() {
    let scraped = Scraped::new();
    assert_eq!(scraped.sum("muster_leader "), 0.0);
    scraped.leadership.send_replace(Leadership::Leader);
    assert_eq!(scraped.sum("muster_leader "), 1.0);
}

#[test]
fn every_counter_is_there_before_its_first_event() {
    let scraped = Scraped::new();
    let page = scraped.page();
    for series in [
        "muster_gang_timeouts_total{action=\"Wait\"} 0\n",
        "muster_gang_timeouts_total{action=\"Suspend\"} 0\n",
        "muster_gang_revivals_total 0\n",
        "muster_looks_total{kind=\"Job\"} 0\n",
        "muster_look_errors_total{kind=\"Job\"} 0\n",
        "muster_start_barriers_total{outcome=\"timed_out\"} 0\n",
    ] {
        assert!(page.contains(series), "{series} is not in\n{page}");
    }
    for scheduler in scheduler::names() {
        let series = format!("muster_gang_nudges_total{{scheduler=\"{scheduler}\"}} 0\n");
        assert!(page.contains(&series), "{series} is not in\n{page}");
    }
    let jobs = scraped.of("Job");
    let nudged = scheduler::TABLE[2].kind;
    jobs.nudged(nudged);
    let nudges = format!("muster_gang_nudges_total{{scheduler=\"{nudged}\"}}");
    assert_eq!(scraped.sum(&nudges), 1.0);
    assert_eq!(scraped.sum("muster_gang_nudges_total{"), 1.0);
    jobs.timed_out(TimeoutAction::Suspend, 3);
    jobs.barrier(BarrierOutcome::Opened);
    let timeouts = "muster_gang_timeouts_total{action=\"Suspend\"}";
    assert_eq!(scraped.sum(timeouts), 3.0);
    assert_eq!(scraped.sum("muster_start_barriers_total{"), 1.0);
}
