//! Programs that wait for the host, which makes inputs of outputs.

use std::{cell::RefCell, sync::Arc};

use triune_device::DeviceSpec;
use triune_graph::ops::{BinaryKind, UnaryKind};
use triune_runtime::{CompileOptions, DeployOptions, Deployment, Device, compile};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Random, Tensor};

const MEANING: QuantParams = QuantParams { scale: 0.03, zero_point: 7 };

/// Two convolutions with what has no form over integers between them: the program waits once.
fn waiting() -> Deployment {
    let (mut builder, mut random) = (GraphBuilder::new(), Random(3));
    let x = builder.input("x", DType::F32, &[1, 8, 16, 16]);
    let mut x = builder.quantize_dequantize(x, MEANING, DType::I8);
    for last in [false, true] {
        let bytes: Vec<i8> = random.bytes(8 * 8 * 9).into_iter().map(|byte| byte as i8).collect();
        let weights = builder.dequantized_constant(&Tensor::i8(&[8, 8, 3, 3], &bytes), &[0.002], 0);
        x = builder.conv(&[x, weights], 1, 1, 1);
        x = builder.quantize_dequantize(x, MEANING, DType::I8);
        if !last {
            let exponent = builder.constant(&Tensor::f32(&[1], &[1.7]));
            let positive = builder.unary(UnaryKind::Relu, x);
            x = builder.binary(BinaryKind::Pow, positive, exponent);
            x = builder.quantize_dequantize(x, MEANING, DType::I8);
        }
    }
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    let program =
        compile(&builder.finish(&[x]), &spec, &CompileOptions::default()).expect("a program").program;
    let device = Device::new(spec).expect("a device");
    Deployment::new(&device, &Arc::new(program), &DeployOptions::default()).expect("a deployment")
}

#[test]
fn the_host_makes_as_many_bytes_as_the_program_waits_for() {
    let mut deployment = waiting();
    let program = Arc::clone(deployment.program());
    let [wait] = &program.waits[..] else { panic!("one wait, not {:?}", program.waits) };
    let read: Vec<usize> = wait.reads.iter().map(|&index| program.outputs[index].bytes()).collect();
    let [made] = wait.makes[..] else { panic!("one input, not {:?}", wait.makes) };
    let bytes = program.inputs[made].bytes();
    let input = vec![9; program.given()[0].bytes()];
    let mut run = |sizes: &[usize]| {
        let mut output = vec![0; program.results()[0].bytes()];
        let asked = RefCell::new(Vec::new());
        let done = deployment.run_with(&[&input], &mut [&mut output], &mut |number, tensors| {
            asked.borrow_mut().push((number, tensors.iter().map(Vec::len).collect::<Vec<_>>()));
            Ok(sizes.iter().map(|&size| vec![3; size]).collect())
        });
        assert_eq!(asked.into_inner(), [(0, read.clone())]);
        done.map(|()| output)
    };
    let expected = run(&[bytes]).expect("a run");
    for wrong in [&[][..], &[bytes, bytes], &[bytes - 1], &[bytes + 1], &[0]] {
        let error = run(wrong).expect_err("other tensors").to_string();
        assert!(error.contains("other tensors than the program waits for"), "{wrong:?}: {error}");
    }
    assert_eq!(run(&[bytes]).expect("a run after refused ones"), expected);
}
