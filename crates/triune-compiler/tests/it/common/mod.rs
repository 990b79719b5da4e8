//! Graphs compiled for the host and run on its device, and lowered by hand.

use std::sync::Arc;

use triune_compiler::{
    Error, Outline, Program, compile_host,
    lower::{InputPlan, IoPlan, Lowered, lower},
    view::{Home, View},
};
use triune_device::{
    Addr, Command, DeviceSpec, Executor, Memory, Segment, SegmentKind, SegmentTable, Stream,
};
use triune_graph::{Graph, ValueId};
use triune_kernels::{Isa, Pool};
use triune_testing::{Tensor, interpret};

/// A graph's program.
pub(crate) fn compiled(graph: &Graph, fusion: bool) -> Result<(Program, Outline), Error> {
    let host = DeviceSpec::builtin("host").expect("the host");
    compile_host(graph.clone(), &host, fusion, None, triune_compiler::PlanOptions::default().search)
        .map(|(program, skeleton)| (program, skeleton.outline()))
}

/// The commands of a program.
pub(crate) fn commands(program: &Program) -> Vec<Command> {
    triune_device::command::decode(&program.instructions).expect("commands that can be decoded")
}

/// What commands a program has but its end, by name.
pub(crate) fn mnemonics(commands: &[Command]) -> Vec<&'static str> {
    let names = commands.iter().map(|command| command.opcode().mnemonic());
    names.filter(|name| *name != "end").collect()
}

/// Runs a program on a memory of its own.
pub(crate) fn run(program: &Program, inputs: &[Tensor]) -> Vec<Tensor> {
    let spec = DeviceSpec::builtin("host").expect("the host");
    let memory = Arc::new(Memory::new(&spec).expect("address space"));
    let region = memory.regions().next().expect("a region").0;
    let place = |kind, len: u64, bytes: &[u8]| {
        let base = memory.allocate(region, len.max(1), 64).expect("room");
        memory.write(region, base, bytes).expect("free");
        Segment { region, base, len, kind }
    };
    let bytes = |io: &triune_compiler::TensorIo| io.bytes() as u64;
    let mut segments = vec![
        place(SegmentKind::Instructions, program.instructions.len() as u64, &program.instructions),
        place(SegmentKind::Constants, program.constants.len() as u64, &program.constants),
        place(SegmentKind::Scratch, program.scratch_bytes, &[]),
        place(SegmentKind::Resident, program.resident_bytes(), &[]),
    ];
    for (io, input) in program.inputs.iter().zip(inputs) {
        segments.push(place(SegmentKind::Input, bytes(io), &input.to_bytes()));
    }
    let outputs: Vec<Segment> =
        program.outputs.iter().map(|io| place(SegmentKind::Output, bytes(io), &[])).collect();
    segments.extend(&outputs);
    let table = SegmentTable::new(segments).expect("segments that are apart");
    let stream = Stream { addr: Addr::new(Program::INSTRUCTIONS, 0), len: program.instructions.len() as u64 };
    let mut executor = Executor::new(Arc::clone(&memory), &table, stream, Isa::best()).expect("a program");
    executor.run(&Pool::new(2), None).expect("a run");
    let result = |(io, segment): (&triune_compiler::TensorIo, &Segment)| {
        let mut bytes = vec![0; io.bytes()];
        memory.read(segment.region, segment.base, &mut bytes).expect("free");
        Tensor::from_bytes(io.dtype, &io.shape, &bytes)
    };
    program.outputs.iter().zip(&outputs).map(result).collect()
}

/// Checks what a graph's program computes against the interpreter, with and without fusion: integers exactly, floats within
/// `tolerance` of the largest result. Returns the fused program's commands.
#[track_caller]
pub(crate) fn check(graph: &Graph, inputs: &[(&str, Tensor)], tolerance: f64, what: &str) -> Vec<Command> {
    let expected = interpret(graph, inputs);
    let given: Vec<Tensor> = inputs.iter().map(|(_, tensor)| tensor.clone()).collect();
    let mut fused = Vec::new();
    for fusion in [false, true] {
        let (program, _) = compiled(graph, fusion).unwrap_or_else(|error| panic!("{what}: {error}"));
        let got = run(&program, &given);
        assert_eq!(got.len(), expected.len(), "{what}");
        for (got, expected) in got.iter().zip(&expected) {
            assert_eq!((got.dtype(), &got.shape), (expected.dtype(), &expected.shape), "{what}");
            if !expected.dtype().is_float() {
                assert_eq!(got, expected, "{what}, fused: {fusion}");
                continue;
            }
            let largest = expected.reals().iter().fold(1.0_f64, |most, value| most.max(value.abs()));
            for (at, (got, expected)) in got.reals().into_iter().zip(expected.reals()).enumerate() {
                let close = (got - expected).abs() <= tolerance * largest;
                assert!(
                    close || got == expected,
                    "{what}, fused: {fusion}: [{at}] {got}, expected {expected}"
                );
            }
        }
        fused = commands(&program);
    }
    fused
}

/// The commands of a graph as it is, without any pass, its border row-major.
pub(crate) fn lowered(graph: &Graph) -> Result<Lowered, Error> {
    let view = |id: ValueId, home| {
        let value = graph.value(id);
        let (dtype, shape) = (value.dtype.expect("a type"), value.fixed_shape().expect("a shape"));
        View::dense(home, dtype, shape)
    };
    let inputs = graph.inputs.iter().zip(0..);
    let outputs = graph.outputs.iter().zip(0..);
    let plan = IoPlan {
        inputs: inputs
            .map(|(&id, at)| InputPlan { view: view(id, Home::Input(at)), bordered: None })
            .collect(),
        outputs: outputs.map(|(&id, at)| view(id, Home::Output(at))).collect(),
        block: None,
        turns: triune_compiler::partition::Turns::default(),
    };
    lower(graph, &plan, None)
}
