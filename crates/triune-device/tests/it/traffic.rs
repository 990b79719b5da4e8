//! What each command reads and writes, worked out by hand from its extents: 32 elements nearly everywhere.

use crate::samples::{
    ONES, ZEROS, argreduce, binary, convert, copy, dequantize, fattention, fbinary, fconv, fill, flogsoftmax,
    fmatmul, fnorm, fsoftmax, ftriple, funary, order, pool, put, qconv, qmatmul, qsoftmax, quantize,
    recurrence, reduce, resize, rotate, select, table, tables, take, warp,
};
use triune_device::{
    Command, DeviceSpec,
    command::{End, FAttention, FMatMul, FNorm, QConv, Warp},
    timeline,
    timing::TimingOptions,
};
use triune_tensor::DType;

#[test]
fn bytes_of_each_command() {
    use DType::{I8, I16, I32, U8};
    let rows: Vec<(Command, u64, u64)> = vec![
        (copy().into(), 128, 128),
        (fill().into(), 0, 32),
        // Operand, 3·3·2·2 weights, bias, residual.
        (fconv().into(), 128 + 144 + 8 + 128, 128),
        // The same in bytes, and two multipliers.
        (qconv(U8).into(), 32 + 36 + 8 + 8 + 32, 32),
        (QConv { bias: None, residual: None, add: None, ..qconv(U8) }.into(), 32 + 36 + 8, 32),
        (QConv { table: Some(ZEROS), ..qconv(U8) }.into(), 32 + 36 + 8 + 8 + 256 + 32, 32),
        (qconv(I16).into(), 64 + 72 + 8 + 8, 64),
        // Two matrices of 16, and a bias of 4.
        (fmatmul().into(), 64 + 64 + 16, 64),
        (FMatMul { batch: 3, bias: None, ..fmatmul() }.into(), 3 * 64 + 3 * 64, 3 * 64),
        (FMatMul { batch: 3, shared_b: true, ..fmatmul() }.into(), 3 * 64 + 64 + 16, 3 * 64),
        (FMatMul { m: 2, n: 3, k: 5, ..fmatmul() }.into(), 4 * (2 * 5 + 5 * 3 + 3), 4 * 2 * 3),
        (qmatmul().into(), 16 + 16, 16),
        // By two rows and columns.
        (pool(DType::F32).into(), 128, 32),
        (pool(U8).into(), 32, 8),
        (fbinary().into(), 2 * 128, 128),
        (funary().into(), 128, 128),
        (table(U8).into(), 32 + 256, 32),
        (tables(false).into(), 32 + 2 * 256, 32),
        (tables(true).into(), 32 + 4 * 256, 32),
        // A word for each of 65,536 patterns.
        (table(I16).into(), 64 + (1 << 17), 64),
        (quantize(I8).into(), 128, 32),
        (quantize(I16).into(), 128, 64),
        (dequantize(U8).into(), 32, 128),
        (dequantize(I16).into(), 64, 128),
        (dequantize(I32).into(), 128, 128),
        (qsoftmax().into(), 32, 32),
        (fsoftmax().into(), 128, 128),
        (flogsoftmax().into(), 128, 128),
        (ftriple().into(), 3 * 128, 128),
        (rotate().into(), 128 + 2 * 64, 128),
        // Two heads: queries, keys, values, and what is added to the scores.
        (fattention().into(), 4 * 2 * (3 * 2 + 4 * 2 + 4 + 3 * 4), 4 * 2 * 3),
        (FAttention { bias: None, ..fattention() }.into(), 4 * 2 * (3 * 2 + 4 * 2 + 4), 4 * 2 * 3),
        (fnorm().into(), 128, 128),
        (FNorm { gamma: Some(ONES), ..fnorm() }.into(), 128 + 16, 128),
        (FNorm { gamma: Some(ONES), beta: Some(ZEROS), ..fnorm() }.into(), 128 + 16 + 16, 128),
        (resize().into(), 128, 128),
        // A matrix of nine, and the number of an image.
        (warp().into(), 128 + 36 + 4, 128),
        (Warp { images: None, ..warp() }.into(), 128 + 36, 128),
        // 2 steps, sequences, directions; 4 gates, 3 vectors, 2 states of a cell of one unit.
        (recurrence().into(), 4 * (2 * 2 * 2 * 4 + 2 * 4 + 2 * 3 + 2 * 2 * 2 + 2), 4 * (2 + 2) * 2 * 2),
        (reduce().into(), 128, 8 * 4),
        (argreduce().into(), 128, 4 * 8),
        (binary().into(), 2 * 128, 128),
        (select().into(), 32 + 2 * 128, 128),
        (convert().into(), 128, 64),
        // 6 elements by 2 indices.
        (take().into(), 24 + 16, 24),
        (put().into(), 24 + 16, 24),
        (order().into(), 128, 2 * 2 * 4 * 8),
    ];
    let host = DeviceSpec::builtin("host").expect("builtin");
    let mut wrong = Vec::new();
    for (command, read, written) in rows {
        let timeline = timeline(&host, [command, End {}.into()], &["ram"; 8], &TimingOptions::default());
        let timeline = timeline.expect("timed");
        let [one] = &timeline.commands[..] else { panic!("one command") };
        let found = (one.bytes_read[0], one.bytes_written[0]);
        if found != (read, written) {
            wrong.push(format!("{:?}: {found:?}, not {:?}", one.opcode, (read, written)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
