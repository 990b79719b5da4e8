//! What takes long is done beside the connection: jobs, and registers that start them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
};

use triune_device::{Board, Error, Job};

use super::session::{Output, contained};
use crate::protocol::Answer;

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
    closing: Arc<AtomicBool>,
    thread: Option<(Queue, JoinHandle<()>)>,
}

impl Runner {
    pub(super) fn new(board: Arc<dyn Board>, output: Arc<Output>) -> Self {
        Self { board, output, closing: Arc::default(), thread: None }
    }

    /// Queues a task; its answer goes out when it is done.
    pub(super) fn submit(&mut self, request: u64, task: Task) -> Result<(), Error> {
        if self.thread.is_none() {
            let (sender, receiver) = sync_channel(QUEUE);
            let (board, output, closing) = (self.board.clone(), self.output.clone(), self.closing.clone());
            let work = move || work(&*board, &output, &closing, &receiver);
            let thread = thread::Builder::new().name("runner".into()).spawn(work);
            self.thread = Some((
                sender,
                thread.map_err(|error| Error::Board(format!("no thread for a job: {error}")))?,
            ));
        }
        let Some((queue, _)) = &self.thread else { return Err(Error::Board("no thread for a job".into())) };
        queue.try_send((request, task)).map_err(|error| match error {
            TrySendError::Full(_) => Error::Board(format!("{QUEUE} jobs are waiting already")),
            TrySendError::Disconnected(_) => Error::Board("the thread for jobs has ended".into()),
        })
    }

    /// Lets the current task end and forgets the others.
    pub(super) fn finish(self) {
        self.closing.store(true, Ordering::Release);
        if let Some((queue, thread)) = self.thread {
            drop(queue);
            // Its panics are caught one by one.
            let _ = thread.join();
        }
    }
}

fn work(board: &dyn Board, output: &Output, closing: &AtomicBool, tasks: &Receiver<(u64, Task)>) {
    for (request, task) in tasks {
        if closing.load(Ordering::Acquire) {
            return;
        }
        let answer = contained(output, || match &task {
            Task::Run(job) => board.run(job).map(|report| Answer::Report(report).encode()),
            Task::Register { address, value } => board.write_register(*address, *value).map(|()| Vec::new()),
        });
        // Whoever cannot be told has gone; the connection's own thread sees that, too.
        let _ = output.answer(request, answer.as_deref());
        output.idle();
    }
}
