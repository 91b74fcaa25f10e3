//! Seats: how many connections there are, from whom, and which one has to go when another comes.
//!
//! # Invariants
//!
//! - Idle connections lock nobody out. Held by `half_open_connections_lock_nobody_out`,
//!   `half_open_connections_lock_no_agent_out`.

use indexmap::IndexMap;
use parking_lot::Mutex;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How many connections there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeatLimits {
    /// At once, at least 1.
    pub total: usize,
    /// From one address that is not loopback; addresses of IPv6 count by their network of 64 bits.
    pub per_peer: usize,
    /// Of the total, how many only loopback can take.
    pub for_loopback: usize,
}

impl SeatLimits {
    /// For a server that only this machine reaches.
    pub const fn loopback(total: usize) -> Self {
        Self { total, per_peer: total, for_loopback: 0 }
    }
}

/// Room for connections.
#[derive(Debug)]
pub(crate) struct Seats {
    limits: SeatLimits,
    state: Mutex<State>,
    /// Told when somebody goes, or has nothing under way any longer.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    /// In the order in which they came.
    taken: IndexMap<u64, Taken>,
}

#[derive(Debug)]
struct Taken {
    peer: IpAddr,
    /// Whether a whole head of a request has come.
    has_asked: bool,
    n_under_way: usize,
    close: CancellationToken,
}

impl Seats {
    /// Empty ones.
    pub(crate) fn new(limits: SeatLimits) -> Arc<Self> {
        let limits = SeatLimits { total: limits.total.max(1), ..limits };
        Arc::new(Self { limits, state: Mutex::default(), changed: Notify::new() })
    }

    /// A seat for a connection from this address; `None` if all that it could have are taken by connections at work.
    ///
    /// Where all are taken, the oldest connection that has asked for nothing yet loses its seat, else the oldest one
    /// that has nothing under way.
    pub(crate) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Seat> {
        let peer = counted_as(peer);
        let SeatLimits { total, per_peer, for_loopback } = self.limits;
        let mut state = self.state.lock();
        let is_elsewhere = |taken: &Taken| !taken.peer.is_loopback();
        if !peer.is_loopback() {
            state.make_room(per_peer, |taken| taken.peer == peer)?;
            state.make_room(total.saturating_sub(for_loopback), is_elsewhere)?;
        }
        state.make_room(total, |_| true)?;
        let id = state.next_id;
        state.next_id += 1;
        let close = CancellationToken::new();
        let taken = Taken { peer, has_asked: false, n_under_way: 0, close: close.clone() };
        state.taken.insert(id, taken);
        drop(state);
        let has_asked = AtomicBool::new(false);
        Some(Seat { seats: Arc::clone(self), id, close, has_asked })
    }

    /// As [`Seats::take`], but waits for a seat.
    pub(crate) async fn take_or_wait(self: &Arc<Self>, peer: IpAddr) -> Seat {
        loop {
            if let Some(seat) = self.take(peer) {
                return seat;
            }
            // It keeps a notification for the next waiter, so none is lost in between.
            self.changed.notified().await;
        }
    }
}

impl State {
    /// Sees to it that fewer than so many of these seats are taken; `None` if they are all at work.
    fn make_room(&mut self, limit: usize, is_counted: impl Fn(&Taken) -> bool) -> Option<()> {
        let counted = || self.taken.iter().filter(|(_, taken)| is_counted(taken));
        if counted().count() < limit {
            return Some(());
        }
        let mut idle = counted().filter(|(_, taken)| taken.n_under_way == 0);
        let first_idle = idle.clone().next();
        let id = *idle.find(|(_, taken)| !taken.has_asked).or(first_idle)?.0;
        let gone = self.taken.shift_remove(&id)?;
        gone.close.cancel();
        Some(())
    }
}

/// What an address counts as.
fn counted_as(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let network = address.to_bits() & (u128::from(u64::MAX) << 64);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
    }
}

/// The seat of one connection; dropping it frees it.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    id: u64,
    close: CancellationToken,
    has_asked: AtomicBool,
}

impl Seat {
    /// Waits until the seat is lost to another connection.
    pub(crate) async fn lost(&self) {
        self.close.cancelled().await;
    }

    /// Whether a whole head of a request has come.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// Says that a request has come; until what is returned is dropped, the connection keeps its seat.
    pub(crate) fn begin(self: &Arc<Self>) -> UnderWay {
        self.has_asked.store(true, Ordering::Relaxed);
        if let Some(taken) = self.seats.state.lock().taken.get_mut(&self.id) {
            taken.has_asked = true;
            taken.n_under_way += 1;
        }
        UnderWay { seat: Arc::clone(self) }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.state.lock().taken.shift_remove(&self.id);
        self.seats.changed.notify_one();
    }
}

/// A request under way, until the end of its answer.
pub(crate) struct UnderWay {
    seat: Arc<Seat>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(taken) = self.seat.seats.state.lock().taken.get_mut(&self.seat.id) {
            taken.n_under_way = taken.n_under_way.saturating_sub(1);
        }
        self.seat.seats.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LIMITS: SeatLimits = SeatLimits { total: 8, per_peer: 3, for_loopback: 2 };

    fn at(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    fn taken(seats: &Seats) -> usize {
        seats.state.lock().taken.len()
    }

    #[test]
    fn who_asks_for_nothing_makes_room_for_who_comes() {
        let seats = Seats::new(LIMITS);
        let half_open: Vec<Seat> = (0..8).map(|_| seats.take(at("127.0.0.1")).unwrap()).collect();
        let next = Arc::new(seats.take(at("127.0.0.1")).unwrap());
        let closed = |seat: &Seat| seat.close.is_cancelled();
        assert_eq!(half_open.iter().map(closed).collect::<Vec<_>>(), [vec![true], vec![false; 7]].concat());
        assert_eq!(taken(&seats), 8);
        // The oldest that has asked goes after the youngest that has not.
        drop(next.begin());
        let later: Vec<Seat> = (0..7).map(|_| seats.take(at("::1")).unwrap()).collect();
        assert!(half_open.iter().all(closed) && !closed(&next));
        assert!(later.iter().all(|seat| !closed(seat)));
    }

    #[test]
    fn a_request_under_way_keeps_its_seat() {
        let seats = Seats::new(LIMITS);
        let busy: Vec<Arc<Seat>> = (0..8).map(|_| Arc::new(seats.take(at("::1")).unwrap())).collect();
        let mut under_way: Vec<UnderWay> = busy.iter().map(Seat::begin).collect();
        assert!(seats.take(at("::1")).is_none());
        under_way.pop();
        assert!(seats.take(at("::1")).is_some());
        assert_eq!(busy.iter().filter(|seat| seat.close.is_cancelled()).count(), 1);
        // What is dropped is free, also after it has lost its seat.
        drop((under_way, busy));
        assert_eq!(taken(&seats), 0);
    }

    #[test]
    fn one_address_takes_no_more_than_its_share_and_loopback_has_seats_of_its_own() {
        let seats = Seats::new(LIMITS);
        let hold = |address: &str| {
            let seat = Arc::new(seats.take(at(address))?);
            Some((seat.begin(), seat))
        };
        // Of an IPv6 network any address is easily had.
        let mut held: Vec<_> =
            ["2001:db8::1", "2001:db8::2", "2001:db8::3"].map(|address| hold(address).unwrap()).into();
        assert!(hold("2001:db8::4").is_none());
        held.extend(["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1"].map(|address| hold(address).unwrap()));
        assert!(hold("192.0.2.1").is_none());
        assert!(hold("198.51.100.1").is_none(), "the rest is for loopback");
        held.extend(["127.0.0.1", "::ffff:127.0.0.1"].map(|address| hold(address).unwrap()));
        assert!(hold("127.0.0.1").is_none());
    }

    #[test]
    fn an_address_at_its_limit_makes_room_among_its_own_connections() {
        let seats = Seats::new(LIMITS);
        let other = seats.take(at("192.0.2.9")).unwrap();
        let own: Vec<Seat> = (0..4).map(|_| seats.take(at("192.0.2.1")).unwrap()).collect();
        assert!(!other.close.is_cancelled());
        assert_eq!(own.iter().filter(|seat| seat.close.is_cancelled()).count(), 1);
    }

    #[test]
    fn no_connection_loses_its_seat_to_one_that_is_refused() {
        let (mut held, mut n_refused, mut state) = (Vec::new(), 0, 1_u32);
        let seats = Seats::new(LIMITS);
        for _ in 0..5_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let choice = (state >> 16) as usize;
            let n_closed =
                |held: &[(Arc<Seat>, _)]| held.iter().filter(|(seat, _)| seat.close.is_cancelled()).count();
            let before = n_closed(&held);
            match seats.take(at(["192.0.2.1", "192.0.2.2", "2001:db8::1", "::1"][choice % 4])) {
                Some(seat) => {
                    let seat = Arc::new(seat);
                    let under_way = (choice & 16 == 0).then(|| seat.begin());
                    held.push((seat, under_way));
                }
                None => {
                    assert_eq!(n_closed(&held), before);
                    n_refused += 1;
                }
            }
            if choice & 96 == 0 {
                held.swap_remove((choice >> 7) % held.len());
            }
        }
        assert!(n_refused > 100, "{n_refused}");
    }

    #[tokio::test]
    async fn who_waits_gets_the_seat_that_becomes_free() {
        let seats = Seats::new(SeatLimits { total: 1, ..LIMITS });
        let seat = Arc::new(seats.take(at("127.0.0.1")).unwrap());
        let under_way = seat.begin();
        let mut waiting = Box::pin(seats.take_or_wait(at("127.0.0.1")));
        assert!(tokio::time::timeout(Duration::ZERO, &mut waiting).await.is_err());
        drop(under_way);
        drop(waiting.await);
        assert!(seat.close.is_cancelled());
    }
}
