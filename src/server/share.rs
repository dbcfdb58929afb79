//! Something scarce (connections, bytes of bodies), shared among peers by one rule: a peer may hold
//! as much as is still free.
//!
//! So one greedy peer gets at most a half, two get a third each, and whoever comes then still finds
//! room. A fixed cap per peer cannot do this: behind a Service or a NAT a whole control plane may
//! have one address, so the cap would have to be large, and two greedy peers would fill the total.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The whole, and who holds how much of it.
#[derive(Debug)]
pub(crate) struct Share {
    total: usize,
    held: Mutex<Holdings>,
}

#[derive(Debug, Default)]
struct Holdings {
    used: usize,
    by_peer: HashMap<IpAddr, usize>,
}

impl Share {
    pub(crate) fn of(total: usize) -> Arc<Self> {
        let held = Mutex::default();
        Arc::new(Self { total, held })
    }

    /// A part of nothing yet, for this peer.
    pub(crate) fn part(self: &Arc<Self>, peer: IpAddr) -> Part {
        Part {
            share: Arc::clone(self),
            // One peer, whether the listener speaks IPv4 or has it mapped into IPv6.
            peer: peer.to_canonical(),
            amount: 0,
        }
    }

    fn holdings(&self) -> MutexGuard<'_, Holdings> {
        // Nothing in here panics half-way.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one connection or one body holds. It goes back when this is dropped.
#[derive(Debug)]
pub(crate) struct Part {
    share: Arc<Share>,
    peer: IpAddr,
    amount: usize,
}

/// There is no more for this peer now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Part {
    /// All that there is, for all peers.
    pub(crate) fn total(&self) -> usize {
        self.share.total
    }

    pub(crate) fn grow(&mut self, more: usize) -> Result<(), Exhausted> {
        let mut held = self.share.holdings();
        let free = self.share.total.saturating_sub(held.used);
        let own = held.by_peer.get(&self.peer).copied().unwrap_or(0);
        if own.saturating_add(more) > free {
            return Err(Exhausted);
        }
        held.used += more;
        held.by_peer.insert(self.peer, own + more);
        self.amount += more;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut held = self.share.holdings();
        held.used = held.used.saturating_sub(self.amount);
        if let Some(own) = held.by_peer.get_mut(&self.peer) {
            *own = own.saturating_sub(self.amount);
            if *own == 0 {
                held.by_peer.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    /// Takes one by one until nothing is left for that peer.
    fn all_for(share: &Arc<Share>, number: u8) -> Vec<Part> {
        let mut parts = Vec::new();
        loop {
            let mut part = share.part(peer(number));
            if part.grow(1).is_err() {
                return parts;
            }
            parts.push(part);
        }
    }

    #[test]
    fn greedy_peers_always_leave_room_for_the_next() {
        let share = Share::of(1000);
        let mut taken = Vec::new();
        let mut got = Vec::new();
        for number in 0..4 {
            let parts = all_for(&share, number);
            got.push(parts.len());
            taken.extend(parts);
        }
        assert_eq!(got, [500, 250, 125, 63]);
    }

    #[test]
    fn what_is_dropped_is_free_again() {
        let share = Share::of(10);
        let held = all_for(&share, 1);
        assert_eq!(held.len(), 5);
        drop(held);
        assert!(share.holdings().by_peer.is_empty());
        assert_eq!(share.holdings().used, 0);
        assert_eq!(all_for(&share, 1).len(), 5);
    }

    #[test]
    fn a_mapped_ipv4_address_is_the_same_peer() {
        let share = Share::of(10);
        let IpAddr::V4(v4) = peer(1) else {
            unreachable!()
        };
        let mut mapped = share.part(v4.to_ipv6_mapped().into());
        mapped.grow(5).unwrap();
        assert_eq!(share.part(peer(1)).grow(1), Err(Exhausted));
        assert_eq!(share.part(peer(2)).grow(5), Ok(()));
    }
}
