//! Operators that ONNX Runtime's optimizer makes of several of ONNX's.

use super::{Form, Meaning, NodeReader, Operator, Signature, conv, operators, product};
use crate::{
    Error, Op, ValueId,
    functions::Scope,
    ops::{BinaryKind, UnaryKind},
};

/// What an activation by this name does, step by step.
fn activation(name: &str, [alpha, beta, gamma]: [Option<f32>; 3]) -> Option<Vec<UnaryKind>> {
    let times = |alpha: f32| UnaryKind::Affine { alpha, beta: 0.0 };
    Some(match name {
        "" => Vec::new(),
        "Relu" => vec![UnaryKind::Relu],
        "Tanh" => vec![UnaryKind::Tanh],
        "Sigmoid" => vec![UnaryKind::Sigmoid],
        "HardSwish" => vec![UnaryKind::HardSwish],
        "Softplus" => vec![UnaryKind::Softplus],
        "Softsign" => vec![UnaryKind::Softsign],
        "LeakyRelu" => vec![UnaryKind::LeakyRelu(alpha.unwrap_or(0.01))],
        "ThresholdedRelu" => vec![UnaryKind::ThresholdedRelu(alpha.unwrap_or(1.0))],
        "Clip" => vec![UnaryKind::Clip([alpha.unwrap_or(f32::MIN), beta.unwrap_or(f32::MAX)])],
        "HardSigmoid" => {
            vec![UnaryKind::HardSigmoid { alpha: alpha.unwrap_or(0.2), beta: beta.unwrap_or(0.5) }]
        }
        "ScaledTanh" => vec![UnaryKind::ScaledTanh { alpha: alpha?, beta: beta? }],
        "ParametricSoftplus" => vec![times(beta?), UnaryKind::Softplus, times(alpha?)],
        "Elu" => vec![UnaryKind::Elu(alpha.unwrap_or(1.0))],
        "Selu" => {
            vec![UnaryKind::Elu(alpha.unwrap_or(1.673_263_2)), times(gamma.unwrap_or(1.050_701))]
        }
        "Celu" => match alpha.unwrap_or(1.0) {
            1.0 => vec![UnaryKind::Elu(1.0)],
            alpha if alpha > 0.0 => vec![times(1.0 / alpha), UnaryKind::Elu(1.0), times(alpha)],
            _ => return None,
        },
        _ => return None,
    })
}

/// Puts an activation behind the node, with what emits before it closer to the end.
fn activate(node: &mut NodeReader<'_, '_>, parameters: [Option<f32>; 3]) -> Result<(), Error> {
    let name = node.text("activation", "")?;
    let steps = activation(&name, parameters);
    let steps = steps.ok_or_else(|| node.unsupported(format!("attribute 'activation' = '{name}'")))?;
    // The last is put in first.
    for step in steps.into_iter().rev() {
        node.emit_after(step.into(), &[]);
    }
    Ok(())
}

/// A convolution, to which the fourth operand is added, and a function behind it.
fn fused_conv(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let parameters = node.floats("activation_params")?.unwrap_or_default();
    activate(node, [0, 1, 2].map(|index| parameters.get(index).copied()))?;
    if let Some(addend) = node.inputs.get(3).copied().flatten() {
        node.emit_after(BinaryKind::Add.into(), &[Some(addend)]);
    }
    node.inputs.truncate(3);
    conv::conv(node)
}

fn fused_gemm(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let mut parameters = [None; 3];
    for (parameter, name) in parameters.iter_mut().zip(["alpha", "beta", "gamma"]) {
        *parameter = node.maybe_float(&format!("activation_{name}"))?;
    }
    activate(node, parameters)?;
    product::gemm(node)
}

/// α·A·B of matrices that may lie the other way round, or whose rows may lie around the batch.
fn fused_matmul(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let alpha = node.float("alpha", 1.0)?;
    let a = [node.flag("transA")?, node.flag("transBatchA")?];
    let b = [node.flag("transB")?, node.flag("transBatchB")?];
    let product = move |f: &mut Scope<'_, '_>| {
        let (a, b) = (turned(f, f.input(0)?, a)?, turned(f, f.input(1)?, b)?);
        let y = f.matmul(a, b)?;
        if alpha == 1.0 { Ok(y) } else { f.mul_number(y, f64::from(alpha)) }
    };
    Ok(node.function(product).into())
}

fn turned(f: &mut Scope<'_, '_>, x: ValueId, [swapped, around]: [bool; 2]) -> Result<ValueId, Error> {
    let rank = f.rank(x);
    // Vectors stay as they are.
    if rank < 2 || !swapped && !around {
        return Ok(x);
    }
    let mut perm: Vec<usize> = (0..rank).collect();
    if around {
        perm[..rank - 1].rotate_left(1);
    }
    if swapped {
        perm.swap(rank - 2, rank - 1);
    }
    f.transpose(x, &perm)
}

operators! {
    "com.microsoft";
    "FusedConv": [1] {2, 4, 1 => fused_conv};
    "FusedGemm": [1] {2, 3, 1 => fused_gemm};
    "FusedMatMul": [1] {2, 2, 1 => fused_matmul};
    "TransposeMatMul": [1] {2, 2, 1 => fused_matmul};
}
