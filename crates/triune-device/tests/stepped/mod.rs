//! A slow simulator of a core, cycle by cycle, to compare the timeline with. It shares no code with it: it knows only
//! what the documentation says of queues, buffers and ports.
//!
//! Each job waits in a queue (LOAD, EXECUTE or STORE) and there for what it needs; every memory's port serves the jobs'
//! transfers in the order in which the program issues them.

/// Most memories.
pub(crate) const MEMORIES: usize = 3;

/// A core.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    /// Per memory: bytes per cycles, and the latency.
    pub(crate) ports: [([u64; 2], u64); MEMORIES],
    pub(crate) buffers: usize,
    pub(crate) blocks: u64,
    /// Bytes that a block moves at least.
    pub(crate) smallest: u64,
    pub(crate) launch: u64,
    pub(crate) overhead: u64,
}

/// A command as the engines see it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub(crate) constants: [u64; MEMORIES],
    pub(crate) inputs: [u64; MEMORIES],
    pub(crate) outputs: [u64; MEMORIES],
    pub(crate) compute: u64,
    /// Segments that it reads, besides constants.
    pub(crate) reads: Vec<u8>,
    pub(crate) writes: u8,
}

/// What a command cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) stall: u64,
    pub(crate) load_stall: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    Load,
    Execute,
    Store,
}

/// One entry of a queue. Block numbers run through the whole program, jobs are named by their place in it.
#[derive(Clone, Debug)]
struct Job {
    queue: Queue,
    task: usize,
    block: usize,
    bytes: [u64; MEMORIES],
    compute: u64,
    /// Cycles between the end of the execution before and this one.
    overhead: u64,
    /// The job before in its queue; a load or store must only have begun, an execution be done.
    before: Option<usize>,
    /// Jobs that must be done.
    needs: Vec<usize>,
    /// Per memory: the job whose transfer the port serves before.
    port_before: [Option<usize>; MEMORIES],
    ready: Option<u64>,
    began: Option<u64>,
    /// Per memory: until when the port is busy with it.
    served: [Option<u64>; MEMORIES],
    done: Option<u64>,
}

fn share(total: u64, block: u64, blocks: u64) -> u64 {
    total / blocks + u64::from(block < total % blocks)
}

/// The jobs of a program in the order in which it issues them.
fn issue(core: &Core, tasks: &[Task]) -> Vec<Job> {
    // (command, its block, its blocks)
    let mut blocks = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        let moved: u64 = [task.constants, task.inputs, task.outputs].iter().flatten().sum();
        let count = (moved / core.smallest).clamp(1, core.blocks);
        blocks.extend((0..count).map(|block| (index, block, count)));
    }
    let job = |queue, at: usize, total: [u64; MEMORIES]| {
        let (task, block, count) = blocks[at];
        let compute = if queue == Queue::Execute { share(tasks[task].compute, block, count) } else { 0 };
        let overhead = if queue == Queue::Execute && block == 0 { core.overhead } else { 0 };
        let bytes = total.map(|bytes| share(bytes, block, count));
        Job {
            queue,
            task,
            block: at,
            bytes,
            compute,
            overhead,
            before: None,
            needs: Vec::new(),
            port_before: [None; MEMORIES],
            ready: None,
            began: None,
            served: [None; MEMORIES],
            done: None,
        }
    };
    let constants = |at: usize| job(Queue::Load, at, tasks[blocks[at].0].constants);
    let inputs = |at: usize| job(Queue::Load, at, tasks[blocks[at].0].inputs);
    let mut jobs: Vec<(Job, bool)> = vec![(constants(0), false), (inputs(0), true)];
    for at in 0..blocks.len() {
        let (mut ahead, mut behind) = (Vec::new(), Vec::new());
        if let Some(&(next, ..)) = blocks.get(at + 1) {
            ahead.push((constants(at + 1), false));
            // The inputs of another command are issued behind everything of this one.
            if next == blocks[at].0 { &mut ahead } else { &mut behind }.push((inputs(at + 1), true));
        }
        let run = [
            (job(Queue::Execute, at, [0; MEMORIES]), false),
            (job(Queue::Store, at, tasks[blocks[at].0].outputs), false),
        ];
        if core.buffers > 1 {
            jobs.extend(ahead.into_iter().chain(run).chain(behind));
        } else {
            jobs.extend(run.into_iter().chain(ahead).chain(behind));
        }
    }
    let (jobs, takes_inputs): (Vec<Job>, Vec<bool>) = jobs.into_iter().unzip();
    link(core, tasks, jobs, &takes_inputs)
}

/// Writes down what each job waits for.
fn link(core: &Core, tasks: &[Task], mut jobs: Vec<Job>, takes_inputs: &[bool]) -> Vec<Job> {
    for index in 0..jobs.len() {
        let job = jobs[index].clone();
        let all = |wanted: &dyn Fn(&Job) -> bool| -> Vec<usize> {
            (0..jobs.len()).filter(|&other| wanted(&jobs[other])).collect()
        };
        let before = (0..index).rev().find(|&other| jobs[other].queue == job.queue);
        let port_before =
            std::array::from_fn(|memory| (0..index).rev().find(|&other| jobs[other].bytes[memory] > 0));
        // The block that had the same buffer.
        let sharing = |queue| all(&|other| other.queue == queue && other.block + core.buffers == job.block);
        let of_block = |queue| all(&|other| other.queue == queue && other.block == job.block);
        let needs = match job.queue {
            Queue::Load => {
                let mut needs = sharing(Queue::Execute);
                if takes_inputs[index] {
                    needs.extend(all(&|other| {
                        other.queue == Queue::Store
                            && other.task < job.task
                            && tasks[job.task].reads.contains(&tasks[other.task].writes)
                    }));
                }
                needs
            }
            Queue::Execute => [of_block(Queue::Load), sharing(Queue::Store)].concat(),
            Queue::Store => of_block(Queue::Execute),
        };
        let job = &mut jobs[index];
        (job.before, job.port_before, job.needs) = (before, port_before, needs);
    }
    jobs
}

/// Runs the program; gives the costs of its commands and the cycle in which the last store is done.
pub(crate) fn simulate(core: &Core, tasks: &[Task]) -> (Vec<Cost>, u64) {
    let mut jobs = issue(core, tasks);
    let (mut live, mut now) = (0, core.launch);
    while live < jobs.len() {
        // What takes no time can follow something else within the cycle.
        while (live..jobs.len()).any(|index| step(core, &mut jobs, index, now)) {}
        while jobs.get(live).is_some_and(|job| job.done.is_some()) {
            live += 1;
        }
        now += 1;
        assert!(now < 10_000_000, "no progress: {:?}", jobs[live]);
    }
    let mut costs = vec![Cost { start: u64::MAX, ..Cost::default() }; tasks.len()];
    for job in &jobs {
        let (began, done) = (job.began.expect("it began"), job.done.expect("it ended"));
        let cost = &mut costs[job.task];
        match job.queue {
            Queue::Load if job.bytes == [0; MEMORIES] => {}
            Queue::Load => cost.start = cost.start.min(began),
            Queue::Execute => {
                cost.start = cost.start.min(began);
                let turn = turn(core, &jobs, job).expect("the one before ended");
                let loads = job.needs.iter().filter(|&&other| jobs[other].queue == Queue::Load);
                let loaded = loads.filter_map(|&other| jobs[other].done).fold(turn, u64::max);
                cost.stall += began - turn;
                cost.load_stall += loaded - turn;
            }
            Queue::Store => cost.end = cost.end.max(done),
        }
    }
    (costs, jobs.iter().filter_map(|job| job.done).fold(core.launch, u64::max))
}

/// When an execution's turn comes.
fn turn(core: &Core, jobs: &[Job], job: &Job) -> Option<u64> {
    let free = job.before.map_or(Some(core.launch), |before| jobs[before].done)?;
    Some(free + job.overhead)
}

/// Lets a job do in this cycle what it can; whether it did anything.
fn step(core: &Core, jobs: &mut [Job], index: usize, now: u64) -> bool {
    let by_now = |time: Option<u64>| time.is_some_and(|time| time <= now);
    let job = &jobs[index];
    if job.done.is_some() {
        return false;
    }
    if job.ready.is_none() {
        let in_turn = match job.queue {
            Queue::Execute => by_now(turn(core, jobs, job)),
            Queue::Load | Queue::Store => job.before.is_none_or(|before| by_now(jobs[before].began)),
        };
        if !in_turn || !job.needs.iter().all(|&other| by_now(jobs[other].done)) {
            return false;
        }
        jobs[index].ready = Some(now);
        if jobs[index].queue == Queue::Execute || jobs[index].bytes == [0; MEMORIES] {
            jobs[index].began = Some(now);
            jobs[index].done = Some(now + jobs[index].compute);
        }
        return true;
    }
    let mut moved = false;
    for memory in 0..MEMORIES {
        let job = &jobs[index];
        let port_free = job.port_before[memory].is_none_or(|before| by_now(jobs[before].served[memory]));
        if job.bytes[memory] > 0 && job.served[memory].is_none() && port_free {
            let job = &mut jobs[index];
            job.served[memory] = Some(now + beats(core.ports[memory].0, job.bytes[memory]));
            job.began = job.began.or(Some(now));
            moved = true;
        }
    }
    let job = &mut jobs[index];
    if (0..MEMORIES).all(|memory| job.bytes[memory] == 0 || job.served[memory].is_some()) {
        let last = (0..MEMORIES).filter_map(|memory| Some(job.served[memory]? + core.ports[memory].1)).max();
        job.done = last;
    }
    moved
}

/// Cycles that a port needs for some bytes: every cycle it gains a fraction of a byte more to move.
fn beats([bytes, cycles]: [u64; 2], count: u64) -> u64 {
    let (mut moved, mut beats) = (0, 0);
    while moved < count * cycles {
        moved += bytes;
        beats += 1;
    }
    beats
}
