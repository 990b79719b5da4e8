//! Recurrent cells on every instruction set and number of threads, against one element at a time in f64.

use std::sync::Arc;

use crate::common::{isas, same_bits};
use triune_kernels::{Error, Filter, Isa, PackedFilter, Pool, Recurrence, RecurrenceSpec, Sequences};
use triune_tensor::function::{CellKind, UnaryKind};
use triune_testing::{Random, unary};

const USUAL: [UnaryKind; 3] = [UnaryKind::Sigmoid, UnaryKind::Tanh, UnaryKind::Tanh];
const OTHERS: [UnaryKind; 3] =
    [UnaryKind::HardSigmoid { alpha: 0.25, beta: 0.5 }, UnaryKind::Softsign, UnaryKind::LeakyRelu(0.1)];

/// Operands of a run, those that may be left out chosen by the bits of `with`: vectors, initial states, lengths.
struct Case {
    spec: RecurrenceSpec,
    input: Vec<f32>,
    weights: Vec<f32>,
    vectors: Option<Vec<f32>>,
    initial: Option<Vec<f32>>,
    lengths: Option<Vec<i32>>,
}

impl Case {
    fn new(spec: RecurrenceSpec, with: u8, random: &mut Random) -> Self {
        let RecurrenceSpec { cell, steps, directions, batch, hidden, .. } = spec;
        let mut values =
            |count: usize, scale: f32| -> Vec<f32> { (0..count).map(|_| random.unit() * scale).collect() };
        let input = values(steps * batch * directions * cell.gates() * hidden, 2.0);
        let weights =
            values(directions * cell.gates() * hidden * hidden, 2.0 / (hidden.max(1) as f32).sqrt());
        let vectors = (with & 1 > 0).then(|| values(directions * cell.vectors() * hidden, 1.0));
        let initial = (with & 2 > 0).then(|| values(cell.states() * directions * batch * hidden, 1.0));
        let lengths = (with & 4 > 0).then(|| (0..batch).map(|_| random.below(steps + 1) as i32).collect());
        Self { spec, input, weights, vectors, initial, lengths }
    }

    fn len(&self) -> usize {
        let RecurrenceSpec { cell, steps, directions, batch, hidden, .. } = self.spec;
        (steps + cell.states()) * directions * batch * hidden
    }

    fn run(&self, isa: Isa, packed: bool, threads: usize) -> Result<Vec<f32>, Error> {
        let bytes: Vec<u8> = self.weights.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (hidden, gates) = (self.spec.hidden, self.spec.cell.gates() * self.spec.directions);
        let filter = Filter::dense(&bytes, gates * hidden, 1, hidden);
        let weights = packed.then(|| Arc::new(PackedFilter::matrices(&filter, gates, isa).unwrap()));
        let recurrence = Recurrence::new(&self.spec, weights, isa)?;
        let pool = Pool::new(threads);
        // What scratch and output held before must not matter.
        let mut scratch = vec![0xff; recurrence.scratch_bytes(pool.threads())];
        let mut output = vec![f32::NAN; self.len()];
        let sequences = Sequences {
            input: &self.input,
            weights: (!packed).then_some(&self.weights),
            vectors: self.vectors.as_deref(),
            initial: self.initial.as_deref(),
            lengths: self.lengths.as_deref(),
        };
        recurrence.run(&sequences, &mut output, &mut scratch, &pool)?;
        Ok(output)
    }

    /// The definition.
    fn expected(&self) -> Vec<f64> {
        let RecurrenceSpec { cell, steps, directions, batch, hidden, .. } = self.spec;
        let mut output = vec![0.0; self.len()];
        for direction in 0..directions {
            for sequence in 0..batch {
                let row = |time: usize| ((time * directions + direction) * batch + sequence) * hidden;
                let state = |state: usize| -> Vec<f64> {
                    let at =
                        |unit: usize| self.initial.as_ref().map_or(0.0, |all| all[row(state) + unit].into());
                    (0..hidden).map(at).collect()
                };
                let mut h = state(0);
                let mut c = if cell.states() > 1 { state(1) } else { Vec::new() };
                let length = self.lengths.as_ref().map_or(steps, |lengths| lengths[sequence] as usize);
                for step in 0..length {
                    let time = if self.spec.backwards[direction] { length - 1 - step } else { step };
                    let input = ((time * batch + sequence) * directions + direction) * cell.gates() * hidden;
                    (h, c) = self.step(direction, &self.input[input..], &h, &c);
                    output[row(time)..][..hidden].copy_from_slice(&h);
                }
                output[row(steps)..][..hidden].copy_from_slice(&h);
                if cell.states() > 1 {
                    output[row(steps + 1)..][..hidden].copy_from_slice(&c);
                }
            }
        }
        output
    }

    fn step(&self, direction: usize, input: &[f32], h: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let RecurrenceSpec { cell, hidden, clip, coupled, .. } = self.spec;
        let [first, second, third] = self.spec.functions[direction];
        let clip = f64::from(clip);
        let x = |gate: usize, unit: usize| f64::from(input[gate * hidden + unit]);
        let product = |gate: usize, unit: usize, state: &[f64]| -> f64 {
            let row = ((direction * cell.gates() + gate) * hidden + unit) * hidden;
            self.weights[row..][..hidden].iter().zip(state).map(|(&w, s)| f64::from(w) * s).sum()
        };
        let vector = |index: usize, unit: usize| {
            let at = (direction * cell.vectors() + index) * hidden + unit;
            self.vectors.as_ref().map_or(0.0, |vectors| f64::from(vectors[at]))
        };
        let apply = |kind: UnaryKind, x: f64| unary(kind, x.clamp(-clip, clip));
        let gate = |index: usize, unit: usize| x(index, unit) + product(index, unit, h);
        match cell {
            CellKind::Simple => ((0..hidden).map(|unit| apply(first, gate(0, unit))).collect(), Vec::new()),
            CellKind::Gru | CellKind::LinearGru => {
                let reset: Vec<f64> = (0..hidden).map(|unit| apply(first, gate(1, unit))).collect();
                let let_through: Vec<f64> = reset.iter().zip(h).map(|(r, h)| r * h).collect();
                let new = |unit: usize| {
                    let inner = if cell == CellKind::Gru {
                        product(2, unit, &let_through)
                    } else {
                        reset[unit] * (product(2, unit, h) + vector(0, unit))
                    };
                    apply(second, x(2, unit) + inner)
                };
                let mixed = |unit: usize| {
                    let z = apply(first, gate(0, unit));
                    (1.0 - z) * new(unit) + z * h[unit]
                };
                ((0..hidden).map(mixed).collect(), Vec::new())
            }
            CellKind::Lstm => {
                let carried = |(unit, c): (usize, &f64)| {
                    let i = apply(first, gate(0, unit) + vector(0, unit) * c);
                    let f = apply(first, gate(2, unit) + vector(2, unit) * c);
                    let f = if coupled { 1.0 - i } else { f };
                    f * c + i * apply(second, gate(3, unit))
                };
                let next: Vec<f64> = c.iter().enumerate().map(carried).collect();
                let out = |unit: usize| {
                    let o = apply(first, gate(1, unit) + vector(1, unit) * next[unit]);
                    o * unary(third, next[unit])
                };
                ((0..hidden).map(out).collect(), next)
            }
        }
    }
}

fn spec(cell: CellKind, [steps, directions, batch, hidden]: [usize; 4]) -> RecurrenceSpec {
    RecurrenceSpec {
        cell,
        steps,
        directions,
        batch,
        hidden,
        backwards: [false, true],
        functions: [USUAL, OTHERS],
        clip: f32::INFINITY,
        coupled: false,
    }
}

fn check(case: &Case) {
    let expected = case.expected();
    let first = case.run(Isa::Scalar, true, 1).unwrap();
    for (got, expected) in first.iter().zip(&expected) {
        let difference = (f64::from(*got) - expected).abs();
        assert!(difference <= 2e-5, "{got} for {expected}: {:?}", case.spec);
    }
    for isa in isas() {
        for (packed, threads) in [(true, 1), (true, 2), (true, 5), (false, 1), (false, 3)] {
            let got = case.run(isa, packed, threads).unwrap();
            same_bits(
                &got,
                &first,
                &format!("{:?} on {isa:?}, packed {packed}, {threads} threads", case.spec),
            );
        }
    }
}

#[test]
fn cells_are_their_definitions_and_give_the_same_bits_everywhere() {
    let mut random = Random(7);
    for &cell in CellKind::ALL {
        for dims in [[3, 2, 3, 5], [1, 1, 1, 1], [4, 1, 17, 33], [5, 2, 1, 70], [2, 2, 31, 16], [2, 1, 8, 96]]
        {
            for with in [0, 7, 5] {
                let mut spec = spec(cell, dims);
                check(&Case::new(spec, with, &mut random));
                (spec.clip, spec.coupled, spec.backwards) = (0.5, true, [true, false]);
                spec.functions.swap(0, 1);
                check(&Case::new(spec, with, &mut random));
            }
        }
    }
}

#[test]
fn threads_that_share_a_step_give_the_same_bits() {
    let mut random = Random(8);
    for &cell in CellKind::ALL {
        // More units than a step must have to be shared, and panels that do not divide among the threads.
        let case = Case::new(spec(cell, [3, 1, 2, 520]), 7, &mut random);
        let one = case.run(Isa::best(), true, 1).unwrap();
        for threads in [2, 3, 8] {
            same_bits(&case.run(Isa::best(), true, threads).unwrap(), &one, &format!("{cell:?}, {threads}"));
        }
    }
}

/// One sequence of a case of one direction.
fn alone(case: &Case, sequence: usize) -> Case {
    let RecurrenceSpec { cell, batch, hidden, .. } = case.spec;
    let every = |values: &[f32], len: usize| -> Vec<f32> {
        values.chunks_exact(batch * len).flat_map(|row| row[sequence * len..][..len].to_vec()).collect()
    };
    Case {
        spec: RecurrenceSpec { batch: 1, ..case.spec },
        input: every(&case.input, cell.gates() * hidden),
        weights: case.weights.clone(),
        vectors: case.vectors.clone(),
        initial: case.initial.as_ref().map(|initial| every(initial, hidden)),
        lengths: case.lengths.as_ref().map(|lengths| vec![lengths[sequence]]),
    }
}

#[test]
fn sequences_that_take_steps_together_have_the_bits_of_each_alone() {
    let mut random = Random(12);
    for &cell in CellKind::ALL {
        // Weights that are too large for a cache nearby, and more sequences than a tile has rows.
        let case = Case::new(spec(cell, [3, 1, 31, 720]), 7, &mut random);
        let hidden = case.spec.hidden;
        for threads in [1, 2, 3] {
            let all = case.run(Isa::best(), true, threads).unwrap();
            for sequence in [0, 13, 30] {
                let own = alone(&case, sequence).run(Isa::best(), true, 1).unwrap();
                let rows = all.chunks_exact(31 * hidden).flat_map(|row| &row[sequence * hidden..][..hidden]);
                let rows: Vec<f32> = rows.copied().collect();
                same_bits(&rows, &own, &format!("{cell:?}, {threads} threads, sequence {sequence}"));
            }
        }
    }
}

#[test]
fn nothing_to_do_is_no_error() {
    let mut random = Random(9);
    for dims in [[0, 2, 3, 4], [3, 1, 0, 4], [3, 1, 2, 0]] {
        let case = Case::new(spec(CellKind::Lstm, dims), 3, &mut random);
        let got = case.run(Isa::best(), false, 2).unwrap();
        // Without a step the states are those that the run began with.
        assert_eq!(got, case.initial.unwrap());
    }
}

#[test]
fn lengths_beyond_the_steps_are_refused() {
    let mut random = Random(10);
    for length in [-1, 4, i32::MIN, i32::MAX] {
        let mut case = Case::new(spec(CellKind::Gru, [3, 1, 2, 4]), 0, &mut random);
        case.lengths = Some(vec![3, length]);
        let expected = Error::Range { operand: "lengths", value: length.into(), most: 3 };
        assert_eq!(case.run(Isa::best(), true, 1), Err(expected));
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let mut random = Random(11);
    let good = || Case::new(spec(CellKind::Lstm, [2, 1, 2, 4]), 7, &mut Random(11));
    let short = |case: Case, packed: bool, operand: &'static str| {
        let error = case.run(Isa::best(), packed, 1).unwrap_err();
        assert!(matches!(error, Error::Short { operand: got, .. } if got == operand), "{error}");
    };
    short(Case { input: vec![0.0; 63], ..good() }, true, "input");
    short(Case { vectors: Some(vec![0.0; 11]), ..good() }, true, "vectors");
    short(Case { initial: Some(vec![0.0; 15]), ..good() }, true, "initial");
    short(Case { lengths: Some(vec![1]), ..good() }, true, "lengths");
    short(Case { weights: vec![0.0; 63], ..good() }, false, "weights");
    for (directions, clip) in [(0, 1.0), (3, 1.0), (1, -1.0), (1, f32::NAN)] {
        let spec = RecurrenceSpec { directions, clip, ..good().spec };
        assert!(matches!(Recurrence::new(&spec, None, Isa::best()), Err(Error::Invalid(_))));
    }
    let other = Case::new(spec(CellKind::Lstm, [2, 1, 2, 5]), 0, &mut random);
    let bytes: Vec<u8> = other.weights.iter().flat_map(|value| value.to_le_bytes()).collect();
    let packed = PackedFilter::matrices(&Filter::dense(&bytes, 20, 1, 5), 4, Isa::best()).unwrap();
    let error = Recurrence::new(&good().spec, Some(Arc::new(packed)), Isa::best()).unwrap_err();
    assert_eq!(error, Error::Invalid("the packed weights are not the cell's"));
}
