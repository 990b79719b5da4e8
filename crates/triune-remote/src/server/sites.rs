//! Who has which board.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use triune_device::{Board, Error};

use crate::{link, lock};

type Make = dyn Fn() -> Result<Arc<dyn Board>, Error> + Send + Sync;

/// The boards of a server: each is made when its first client comes, and goes with its last. So nobody finds what
/// another one left.
pub(super) struct Sites {
    device: String,
    make: Box<Make>,
    seats: Mutex<Vec<Option<Seat>>>,
    /// A board got free.
    left: Condvar,
}

/// How long a board that is in use is waited for.
const GRACE: Duration = Duration::from_millis(500);

/// The index of the board that a client gets; [`Error::InUse`] where that may change.
fn find(seats: &[Option<Seat>], wanted: Option<u32>, share: bool) -> Result<usize, Error> {
    let joins = |seat: &Option<Seat>| seat.as_ref().is_some_and(|seat| seat.shared && share);
    let Some(index) = wanted else {
        let found = seats.iter().position(joins).or_else(|| seats.iter().position(Option::is_none));
        return found.ok_or_else(|| {
            Error::InUse(match seats.len() {
                1 => "the server's only board is in use by another client".to_owned(),
                count => format!("all {count} boards of the server are in use by other clients"),
            })
        });
    };
    let index = index as usize;
    match seats.get(index) {
        None => {
            Err(link(format!("there is no board {index}: the server has {}, counted from 0", seats.len())))
        }
        Some(seat @ Some(Seat { shared, .. })) if !joins(seat) => {
            let how = if *shared { "shared by others: ask to share it" } else { "in use by another client" };
            Err(Error::InUse(format!("board {index} is {how}")))
        }
        Some(_) => Ok(index),
    }
}

struct Seat {
    board: Arc<dyn Board>,
    shared: bool,
    clients: usize,
}

impl Sites {
    pub(super) fn new(
        device: &str,
        count: u32,
        make: impl Fn() -> Result<Arc<dyn Board>, Error> + Send + Sync + 'static,
    ) -> Self {
        Self {
            device: device.to_owned(),
            make: Box::new(make),
            seats: Mutex::new((0..count).map(|_| None).collect()),
            left: Condvar::new(),
        }
    }

    /// Boards that somebody has.
    pub(super) fn in_use(&self) -> usize {
        lock(&self.seats).iter().flatten().count()
    }

    /// Gives a client a board: the one with this number, or the first that it can have. Clients that share join a shared
    /// one before they open another. A board that is in use is waited for for a moment: its client may be about to go.
    pub(super) fn take(
        self: &Arc<Self>,
        device: &str,
        wanted: Option<u32>,
        share: bool,
    ) -> Result<Lease, Error> {
        if device != self.device {
            return Err(link(format!("the server has boards of {}, not of '{device}'", self.device)));
        }
        let end = Instant::now() + GRACE;
        let mut seats = lock(&self.seats);
        let index = loop {
            let error = match find(&seats, wanted, share) {
                Ok(index) => break index,
                Err(error) => error,
            };
            let left = end.saturating_duration_since(Instant::now());
            if !matches!(error, Error::InUse(_)) || left.is_zero() {
                return Err(error);
            }
            let waited = self.left.wait_timeout(seats, left);
            seats = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        let seat = match &mut seats[index] {
            Some(seat) => seat,
            free => free.insert(Seat { board: (self.make)()?, shared: share, clients: 0 }),
        };
        seat.clients += 1;
        Ok(Lease { sites: self.clone(), index, board: seat.board.clone(), shared: share })
    }

    fn leave(&self, index: usize) {
        let mut seats = lock(&self.seats);
        let left = seats[index].as_mut().map(|seat| {
            seat.clients -= 1;
            seat.clients
        });
        if left == Some(0) {
            // Unmapping memory takes time that others need not wait for.
            let seat = seats[index].take();
            drop(seats);
            self.left.notify_all();
            drop(seat);
        }
    }
}

impl fmt::Debug for Sites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sites").field("device", &self.device).finish_non_exhaustive()
    }
}

/// A client's hold on a board.
#[derive(Debug)]
pub(super) struct Lease {
    sites: Arc<Sites>,
    pub(super) index: usize,
    pub(super) board: Arc<dyn Board>,
    pub(super) shared: bool,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.sites.leave(self.index);
    }
}
