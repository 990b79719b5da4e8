//! Who has which board.

use std::{
    fmt,
    sync::{Arc, Mutex},
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
        }
    }

    /// Boards that somebody has.
    pub(super) fn in_use(&self) -> usize {
        lock(&self.seats).iter().flatten().count()
    }

    /// Gives a client a board: the one with this number, or the first that it can have. Clients that share join a shared
    /// one before they open another.
    pub(super) fn take(
        self: &Arc<Self>,
        device: &str,
        wanted: Option<u32>,
        share: bool,
    ) -> Result<Lease, Error> {
        if device != self.device {
            return Err(link(format!("the server has boards of {}, not of {device:?}", self.device)));
        }
        let mut seats = lock(&self.seats);
        let joins = |seat: &Option<Seat>| seat.as_ref().is_some_and(|seat| seat.shared && share);
        let index = if let Some(index) = wanted {
            let index = index as usize;
            let seat = seats.get(index).ok_or_else(|| {
                link(format!("there is no board {index}: the server has {}, counted from 0", seats.len()))
            })?;
            if let Some(Seat { shared, .. }) = seat.as_ref().filter(|_| !joins(seat)) {
                let how =
                    if *shared { "shared by others: ask to share it" } else { "in use by another client" };
                return Err(link(format!("board {index} is {how}")));
            }
            index
        } else {
            seats.iter().position(joins).or_else(|| seats.iter().position(Option::is_none)).ok_or_else(
                || {
                    link(match seats.len() {
                        1 => "the server's only board is in use by another client".to_owned(),
                        count => format!("all {count} boards of the server are in use by other clients"),
                    })
                },
            )?
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
