//! What takes long is done beside the connection: jobs, and registers that start them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
};

use triune_device::{Board, CancelToken, Error, Job, work};

use super::output::{Output, contained};
use crate::{lock, protocol::Answer};

/// Jobs of one connection that wait.
const QUEUE: usize = 256;

/// What a runner does.
pub(super) enum Task {
    Run(Job),
    Register { address: u64, value: u32 },
}

/// Tasks with the numbers of their requests.
type Queue = SyncSender<(u64, Task)>;

/// A connection's thread for tasks, which are done in order. It starts with the first one.
pub(super) struct Runner {
    board: Arc<dyn Board>,
    output: Arc<Output>,
    /// What stops each task that is not done, by its request.
    waiting: Arc<Mutex<HashMap<u64, CancelToken>>>,
    thread: Option<(Queue, JoinHandle<()>)>,
}

impl Runner {
    pub(super) fn new(board: Arc<dyn Board>, output: Arc<Output>) -> Self {
        Self { board, output, waiting: Arc::default(), thread: None }
    }

    /// Queues a task; its answer goes out when it is done.
    pub(super) fn submit(&mut self, request: u64, task: Task) -> Result<(), Error> {
        if self.thread.is_none() {
            let (sender, receiver) = sync_channel(QUEUE);
            let (board, output, waiting) = (self.board.clone(), self.output.clone(), self.waiting.clone());
            let work = move || work(&*board, &output, &waiting, &receiver);
            let thread = thread::Builder::new().name("runner".into()).spawn(work);
            self.thread = Some((
                sender,
                thread.map_err(|error| Error::Board(format!("no thread for a job: {error}")))?,
            ));
        }
        let Some((queue, _)) = &self.thread else { return Err(Error::Board("no thread for a job".into())) };
        lock(&self.waiting).insert(request, CancelToken::new());
        queue.try_send((request, task)).map_err(|error| {
            lock(&self.waiting).remove(&request);
            match error {
                TrySendError::Full(_) => Error::Board(format!("{QUEUE} jobs are waiting already")),
                TrySendError::Disconnected(_) => Error::Board("the thread for jobs has ended".into()),
            }
        })
    }

    /// Stops a task, if it is not done.
    pub(super) fn cancel(&self, request: u64) {
        if let Some(token) = lock(&self.waiting).get(&request) {
            token.cancel();
        }
    }

    /// Stops all tasks.
    pub(super) fn finish(self) {
        lock(&self.waiting).values().for_each(CancelToken::cancel);
        if let Some((queue, thread)) = self.thread {
            drop(queue);
            // Its panics are caught one by one.
            let _ = thread.join();
        }
    }
}

fn work(
    board: &dyn Board,
    output: &Output,
    waiting: &Mutex<HashMap<u64, CancelToken>>,
    tasks: &Receiver<(u64, Task)>,
) {
    for (request, task) in tasks {
        let token = lock(waiting).get(&request).cloned().unwrap_or_default();
        let act = || {
            work::go_on()?;
            match &task {
                Task::Run(job) => board.run(job).map(|report| Answer::Report(report).encode()),
                Task::Register { address, value } => {
                    board.write_register(*address, *value).map(|()| Vec::new())
                }
            }
        };
        let answer = contained(output, || token.during(act));
        lock(waiting).remove(&request);
        // Whoever cannot be told has gone; the connection's own thread sees that, too.
        let _ = output.answer(request, answer.as_deref());
        output.idle();
    }
}
