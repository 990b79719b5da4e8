//! What decoding refuses, command by command: each row breaks one thing of a command that is right, and the error names the
//! field and what is wrong with it. Nothing of it is left for a kernel to find while a program runs.

use crate::common::{Bench, CONSTANTS, INPUT, OUTPUT, SCRATCH, input, operand, output, quant};
use crate::samples::{
    MAP, ONES, ZEROS, argreduce, binary, blend, blockmatmul, constants, convert, copy, dequantize,
    fattention, fbinary, fconv, fill, flogsoftmax, fmatmul, fnorm, from, fsoftmax, ftriple, funary, gpool,
    imatmul, order, params, pool, put, qadd, qconv, qmatmul, qmul, qnorm, qsoftmax, quantize, quantizeby,
    recurrence, reduce, resize, rotate, running, select, table, tables, take, tmatmul, to, warp, weigh,
};
use triune_device::{
    Addr, Command, Error, FeatureMap,
    command::{AddParams, Blocks, FConv, Opcode, Recurrence, RequantTarget},
};
use triune_kernels::Isa;
use triune_tensor::{
    DType, Requantize,
    function::{BinaryKind, BorderMode, CellKind, PoolKind, UnaryKind},
};

/// Everything that is right, in every width that it has a form of its own for.
fn right() -> Vec<Command> {
    use DType::{I8, I16, I32, U8};
    let mut all: Vec<Command> = vec![
        copy().into(),
        fill().into(),
        fconv().into(),
        fmatmul().into(),
        pool(DType::F32).into(),
        gpool(DType::F32).into(),
        fbinary().into(),
        funary().into(),
        dequantize(I32).into(),
        qsoftmax().into(),
        qmatmul().into(),
        qnorm().into(),
        blend().into(),
        fnorm().into(),
        fsoftmax().into(),
        flogsoftmax().into(),
        ftriple().into(),
        rotate().into(),
        fattention().into(),
        resize().into(),
        warp().into(),
        recurrence().into(),
        reduce().into(),
        argreduce().into(),
        binary().into(),
        select().into(),
        convert().into(),
        take().into(),
        put().into(),
        order().into(),
        imatmul().into(),
        tmatmul().into(),
        blockmatmul().into(),
        quantizeby().into(),
        running().into(),
        weigh().into(),
        table(U8).into(),
        tables(false).into(),
    ];
    for dtype in [I8, I16] {
        all.extend::<[Command; 8]>([
            qconv(dtype).into(),
            pool(dtype).into(),
            gpool(dtype).into(),
            qadd(dtype).into(),
            qmul(dtype).into(),
            table(dtype).into(),
            quantize(dtype).into(),
            dequantize(dtype).into(),
        ]);
    }
    all
}

fn bench(command: &Command) -> Bench {
    Bench::alone(&[*command], &constants(), [4096, 256, 256])
}

#[test]
fn what_is_right_runs() {
    for command in right() {
        let name = command.opcode().mnemonic();
        let bench = bench(&command);
        let mut executor = bench.executor(Isa::best()).unwrap_or_else(|error| panic!("{name}: {error}"));
        executor.run(&triune_kernels::Pool::new(1), None).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    for opcode in Opcode::ALL.iter().filter(|opcode| **opcode != Opcode::End) {
        assert!(right().iter().any(|command| command.opcode() == *opcode), "no {}", opcode.mnemonic());
    }
}

/// A command with one thing changed.
fn but<C: Into<Command>>(mut command: C, change: impl FnOnce(&mut C)) -> Command {
    change(&mut command);
    command.into()
}

/// A command, the field that is refused and words of why.
type Row = (Command, &'static str, &'static str);

/// What is wrong with an operand wherever it stands: the address.
fn addresses() -> Vec<Row> {
    let away = |segment| Addr::new(segment, 1 << 40);
    let mut rows = Vec::new();
    macro_rules! each {
        ($($command:expr => $($field:ident).+, $name:literal;)+) => {
            $(
                rows.push((but($command, |c| c.$($field).+ = away(INPUT)), $name, "leave the segment's 256 bytes"));
                rows.push((but($command, |c| c.$($field).+ = away(77)), $name, "no segment 77"));
            )+
        };
    }
    each! {
        copy() => src, "src";
        copy() => dst, "dst";
        fill() => dst, "dst";
        qconv(DType::I8) => input.addr, "input";
        qconv(DType::I8) => output.addr, "output";
        qconv(DType::I8) => weights, "weights";
        qconv(DType::I8) => multiplier, "multiplier";
        qconv(DType::I16) => weights, "weights";
        qconv(DType::I16) => multiplier, "multiplier";
        fconv() => input.addr, "input";
        fconv() => output.addr, "output";
        fconv() => weights, "weights";
        fmatmul() => a, "a";
        fmatmul() => b, "b";
        fmatmul() => output, "output";
        pool(DType::U8) => input.addr, "input";
        pool(DType::U8) => output.addr, "output";
        gpool(DType::U8) => input.addr, "input";
        gpool(DType::U8) => output.addr, "output";
        qadd(DType::I8) => a.addr, "a";
        qadd(DType::I8) => b.addr, "b";
        qadd(DType::I8) => output.addr, "output";
        qmul(DType::I16) => a.addr, "a";
        qmul(DType::I16) => b.addr, "b";
        qmul(DType::I16) => output.addr, "output";
        fbinary() => a.addr, "a";
        fbinary() => b.addr, "b";
        fbinary() => output.addr, "output";
        funary() => input.addr, "input";
        funary() => output.addr, "output";
        table(DType::I8) => input.addr, "input";
        table(DType::I8) => output.addr, "output";
        table(DType::I8) => table, "table";
        tables(false) => input.addr, "input";
        tables(true) => output.addr, "output";
        tables(true) => tables, "tables";
        table(DType::I16) => table, "table";
        quantize(DType::I8) => input.addr, "input";
        quantize(DType::I16) => output.addr, "output";
        dequantize(DType::I8) => input.addr, "input";
        dequantize(DType::I16) => output.addr, "output";
        qsoftmax() => input, "input";
        qsoftmax() => output, "output";
        qmatmul() => a, "a";
        qmatmul() => b, "b";
        qmatmul() => output, "output";
        qnorm() => input, "input";
        qnorm() => output, "output";
        blend() => input.addr, "input";
        blend() => output.addr, "output";
        fnorm() => input, "input";
        fnorm() => output, "output";
        fsoftmax() => input, "input";
        flogsoftmax() => input, "input";
        flogsoftmax() => output, "output";
        ftriple() => a.addr, "a";
        ftriple() => b.addr, "b";
        ftriple() => c.addr, "c";
        ftriple() => output.addr, "output";
        rotate() => input.addr, "input";
        rotate() => cosines.addr, "cosines";
        rotate() => sines.addr, "sines";
        rotate() => output.addr, "output";
        fsoftmax() => output, "output";
        resize() => input.addr, "input";
        resize() => output.addr, "output";
        warp() => input.addr, "input";
        warp() => output.addr, "output";
        warp() => matrices, "matrices";
        recurrence() => input, "input";
        recurrence() => output, "output";
        reduce() => input.addr, "input";
        reduce() => output.addr, "output";
        argreduce() => input.addr, "input";
        argreduce() => output.addr, "output";
        binary() => a.addr, "a";
        binary() => b.addr, "b";
        binary() => output.addr, "output";
        select() => condition.addr, "condition";
        select() => a.addr, "a";
        select() => b.addr, "b";
        select() => output.addr, "output";
        convert() => input.addr, "input";
        convert() => output.addr, "output";
        take() => src, "src";
        take() => indices.addr, "indices";
        take() => dst, "dst";
        put() => src, "src";
        put() => indices.addr, "indices";
        put() => dst, "dst";
        order() => input, "input";
        order() => output, "output";
        imatmul() => a, "a";
        imatmul() => output, "output";
        tmatmul() => a, "a";
        blockmatmul() => input, "input";
        blockmatmul() => output, "output";
        tmatmul() => b, "b";
        tmatmul() => output, "output";
        quantizeby() => input.addr, "input";
        quantizeby() => scale, "scale";
        quantizeby() => output.addr, "output";
        running() => input, "input";
        running() => output, "output";
        weigh() => input, "input";
        weigh() => indices, "indices";
        weigh() => output, "output";
    }
    rows.push((but(weigh(), |c| c.factors = Some(away(INPUT))), "factors", "leave"));
    for (field, place) in [("b", 0), ("a_zeros", 1), ("b_zeros", 2), ("scales", 3)] {
        let row = but(imatmul(), |c| {
            *[&mut c.b, &mut c.a_zeros, &mut c.b_zeros, &mut c.scales][place] = Some(away(INPUT));
        });
        rows.push((row, field, "leave"));
    }
    let known = |addr| but(imatmul(), |c| (c.b, c.weights) = (None, Some(addr)));
    rows.push((known(away(CONSTANTS)), "weights", "leave"));
    rows.push((known(Addr::new(INPUT, 0)), "weights", "not in a segment of constants"));
    rows.push((but(blockmatmul(), |c| c.weights = away(CONSTANTS)), "weights", "leave"));
    rows.push((but(quantizeby(), |c| c.zero_point = Some(away(INPUT))), "zero_point", "leave"));
    rows.push((but(qconv(DType::I8), |c| c.bias = Some(away(INPUT))), "bias", "leave"));
    rows.push((but(qconv(DType::I16), |c| c.bias = Some(away(INPUT))), "bias", "leave"));
    rows.push((but(fconv(), |c| c.bias = Some(away(INPUT))), "bias", "leave"));
    rows.push((but(fmatmul(), |c| c.bias = Some(away(INPUT))), "bias", "leave"));
    rows.push((but(fattention(), |c| c.bias = Some(away(INPUT))), "bias", "leave"));
    rows.push((but(warp(), |c| c.images = Some(away(INPUT))), "images", "leave"));
    let given = |c: &mut Recurrence| (c.weights, c.given_weights) = (None, Some(away(INPUT)));
    rows.push((but(recurrence(), given), "given_weights", "leave"));
    rows.push((but(recurrence(), |c| c.weights = Some(away(CONSTANTS))), "weights", "leave"));
    rows.push((but(recurrence(), |c| c.vectors = Some(away(INPUT))), "vectors", "leave"));
    rows.push((but(recurrence(), |c| c.initial = Some(away(INPUT))), "initial", "leave"));
    rows.push((but(recurrence(), |c| c.lengths = Some(away(INPUT))), "lengths", "leave"));
    rows.push((
        but(qconv(DType::I8), |c| c.weights = Addr::new(INPUT, 0)),
        "weights",
        "not in a segment of constants",
    ));
    rows
}

/// Results that are put where they may not be.
fn places() -> Vec<Row> {
    let mut rows = Vec::new();
    macro_rules! each {
        ($($command:expr => $($field:ident).+, $name:literal;)+) => {
            $(rows.push((but($command, |c| c.$($field).+ = ZEROS), $name, "(constants) is read-only"));)+
        };
    }
    each! {
        copy() => dst, "dst";
        fill() => dst, "dst";
        qconv(DType::I8) => output.addr, "output";
        qconv(DType::I16) => output.addr, "output";
        fconv() => output.addr, "output";
        fmatmul() => output, "output";
        pool(DType::I16) => output.addr, "output";
        gpool(DType::F32) => output.addr, "output";
        qadd(DType::I16) => output.addr, "output";
        qmul(DType::I8) => output.addr, "output";
        fbinary() => output.addr, "output";
        funary() => output.addr, "output";
        table(DType::I16) => output.addr, "output";
        quantize(DType::I16) => output.addr, "output";
        dequantize(DType::I32) => output.addr, "output";
        qsoftmax() => output, "output";
        qmatmul() => output, "output";
        qnorm() => output, "output";
        blend() => output.addr, "output";
        fnorm() => output, "output";
        fsoftmax() => output, "output";
        flogsoftmax() => output, "output";
        ftriple() => output.addr, "output";
        rotate() => output.addr, "output";
        fattention() => output.addr, "output";
        resize() => output.addr, "output";
        warp() => output.addr, "output";
        recurrence() => output, "output";
        reduce() => output.addr, "output";
        argreduce() => output.addr, "output";
        binary() => output.addr, "output";
        select() => output.addr, "output";
        convert() => output.addr, "output";
        take() => dst, "dst";
        put() => dst, "dst";
        order() => output, "output";
        imatmul() => output, "output";
        tmatmul() => output, "output";
        blockmatmul() => output, "output";
        quantizeby() => output.addr, "output";
        running() => output, "output";
        weigh() => output, "output";
    }
    // Onto what is still read, one element further.
    let scratch = |offset| Addr::new(SCRATCH, offset);
    macro_rules! shifted {
        ($($command:expr => $($read:ident).+, $($written:ident).+, $bytes:literal, $name:literal;)+) => {
            $(rows.push((
                but($command, |c| {
                    c.$($read).+ = scratch(0);
                    c.$($written).+ = scratch($bytes);
                }),
                $name,
                "shares bytes with",
            ));)+
        };
    }
    shifted! {
        copy() => src, dst, 4, "src";
        qconv(DType::I8) => input.addr, output.addr, 1, "input";
        qconv(DType::I16) => input.addr, output.addr, 2, "input";
        fconv() => input.addr, output.addr, 4, "input";
        fmatmul() => a, output, 4, "a";
        fmatmul() => b, output, 4, "b";
        fattention() => q.addr, output.addr, 4, "q";
        fattention() => k.addr, output.addr, 4, "k";
        fattention() => v.addr, output.addr, 4, "v";
        pool(DType::F32) => input.addr, output.addr, 4, "input";
        qadd(DType::I8) => a.addr, output.addr, 1, "a";
        qmul(DType::I8) => b.addr, output.addr, 1, "b";
        fbinary() => a.addr, output.addr, 4, "a";
        funary() => input.addr, output.addr, 4, "input";
        table(DType::I8) => input.addr, output.addr, 1, "input";
        quantize(DType::I8) => input.addr, output.addr, 1, "input";
        qsoftmax() => input, output, 1, "input";
        qmatmul() => a, output, 1, "a";
        qmatmul() => b, output, 1, "b";
        qnorm() => input, output, 1, "input";
        blend() => input.addr, output.addr, 1, "input";
        resize() => input.addr, output.addr, 4, "input";
        warp() => matrices, output.addr, 4, "matrices";
        recurrence() => input, output, 4, "input";
        reduce() => input.addr, output.addr, 4, "input";
        argreduce() => input.addr, output.addr, 8, "input";
        binary() => a.addr, output.addr, 4, "a";
        select() => condition.addr, output.addr, 4, "condition";
        convert() => input.addr, output.addr, 2, "input";
        take() => indices.addr, dst, 4, "indices";
        put() => src, dst, 4, "src";
        order() => input, output, 8, "input";
        imatmul() => a, output, 4, "a";
        tmatmul() => b, output, 4, "b";
        blockmatmul() => input, output, 4, "input";
        quantizeby() => scale, output.addr, 1, "scale";
        running() => input, output, 4, "input";
        weigh() => input, output, 4, "input";
    }
    // In place is not for those that read an element after they have written another.
    rows.push((but(resize(), |c| c.output.addr = c.input.addr), "output", "is read-only"));
    let two = "two of its elements share bytes";
    rows.push((but(copy(), |c| c.dst_strides[5] = 0), "dims", "output elements overlap"));
    rows.push((but(take(), |c| c.dst_strides[4] = 4), "dims", "output elements overlap"));
    rows.push((but(funary(), |c| c.output.stride_h = 8), "output", two));
    rows.push((but(qconv(DType::I16), |c| c.output.stride_w = 2), "output", two));
    rows
}

#[expect(clippy::too_many_lines, reason = "it is a table")]
fn own() -> Vec<Row> {
    use DType::{Bool, F16, F32, F64, I8, I16, I32, I64, U8};
    let clip = |low, high| UnaryKind::Clip([low, high]);
    let quant_of = |scale, zero_point| quant(scale, zero_point);
    vec![
        // Elements.
        (but(copy(), |c| c.elem_bytes = 3), "elem_bytes", "3 is not 1, 2, 4 or 8"),
        (but(copy(), |c| c.dims[3] = 0), "src", "extent 3 is 0"),
        (but(copy(), |c| c.src_strides[4] = 6), "src", "the stride of 6 bytes is not a multiple of 4"),
        (but(copy(), |c| c.src = Addr::new(INPUT, 2)), "src", "is not a multiple of 4"),
        (but(fill(), |c| c.elem_bytes = 0), "elem_bytes", "0 is not 1, 2, 4 or 8"),
        (but(fill(), |c| c.value = 256), "value", "0x100 has more than 1 bytes"),
        (but(fill(), |c| c.dst_strides[5] = 0), "dims", "output elements overlap"),
        // Convolutions.
        (but(qconv(I8), |c| c.input.dtype = F32), "input", "it can be int8 or uint8"),
        (but(qconv(I8), |c| c.output.dtype = I16), "output", "it can be int8 or uint8"),
        (but(qconv(I8), |c| c.result.dtype = I32), "result.dtype", "it can be int8 or uint8"),
        (but(qconv(I8), |c| c.input_zero_point = 128), "input_zero_point", "outside"),
        (but(qconv(I8), |c| c.result.zero_point = -129), "result.zero_point", "outside"),
        (but(qconv(I8), |c| c.window.stride = [0, 1]), "window", "does not fit"),
        (but(qconv(I8), |c| c.window.dilation = [1, 0]), "window", "does not fit"),
        (but(qconv(I8), |c| c.window.groups = 3), "window.groups", "3 groups do not divide 2 and 2"),
        (but(qconv(I8), |c| c.multipliers = 3), "multipliers", "3 for 2 channels"),
        (but(qconv(I8), |c| c.clamp = [1, 0]), "clamp", "leave no integer"),
        (but(qconv(I8), |c| c.clamp = [200, 300]), "clamp", "leave no integer"),
        (but(qconv(I8), |c| c.weight_blocks = [0, 4]), "weight_blocks", "one of two extents is 0"),
        (but(qconv(I8), |c| c.residual = None), "residual", "is missing, and there is an addition"),
        (but(qconv(I8), |c| c.add = None), "add", "is missing, and there is a residual"),
        (but(qconv(I8), |c| c.residual = Some(input(U8, MAP))), "residual", "it can be int8"),
        (but(qconv(I8), |c| c.residual = Some(input(I8, [1, 4, 4, 1]))), "residual", "the extents are"),
        (but(qconv(I8), |c| c.add = Some(AddParams { ra: f32::INFINITY, ..params(I8) })), "add", "overflow"),
        (
            but(qconv(I8), |c| c.add = Some(AddParams { clamp: [5, 4], ..params(I8) })),
            "add.clamp",
            "leave no integer",
        ),
        (
            but(qconv(I8), |c| {
                c.add = Some(AddParams { b: RequantTarget { dtype: I8, zero_point: 200 }, ..params(I8) });
            }),
            "add.b.zero_point",
            "outside",
        ),
        (but(qconv(I16), |c| c.output.dtype = I8), "output", "it can be int16"),
        (but(qconv(I16), |c| c.result.dtype = I8), "result", "it can be int16"),
        (but(qconv(I16), |c| c.input_zero_point = 1), "input_zero_point", "16-bit integers have 0"),
        (but(qconv(I16), |c| c.result.zero_point = 1), "result.zero_point", "16-bit integers have 0"),
        (but(qconv(I16), |c| c.table = Some(ZEROS)), "table", "cannot be joined"),
        (but(qconv(I16), |c| c.residual = Some(input(I16, MAP))), "residual", "cannot be joined"),
        (but(qconv(I16), |c| c.add = Some(params(I8))), "add", "cannot be joined"),
        (but(qconv(I16), |c| c.multipliers = 0), "multipliers", "0 for 2 channels"),
        (but(qconv(I16), |c| c.clamp = [1, 0]), "clamp", "leave no integer"),
        (but(qconv(I16), |c| c.window.groups = 0), "window.groups", "0 groups do not divide"),
        (but(qconv(I16), |c| c.window.kernel = [9, 9]), "window", "does not fit"),
        (but(fconv(), |c| c.input.dtype = I8), "input", "it can be float32"),
        (but(fconv(), |c| c.output.dtype = F64), "output", "it can be float32"),
        (but(fconv(), |c| c.residual = Some(input(I8, MAP))), "residual", "it can be float32"),
        (but(fconv(), |c| c.residual = Some(input(F32, [1, 4, 2, 4]))), "residual", "the extents are"),
        (but(fconv(), |c| c.window.pad = [1, 1, 1, 0]), "output", "the window makes [1, 4, 3]"),
        (but(fconv(), |c| c.window.groups = 4), "window.groups", "do not divide"),
        (but(fconv(), |c| c.activation = clip(f32::NAN, 1.0)), "activation.parameters", "a parameter is NaN"),
        // Products.
        (but(fmatmul(), |c| c.m = 0), "a", "extent 5 is 0"),
        (but(fmatmul(), |c| c.n = 0), "b", "extent 5 is 0"),
        (but(fmatmul(), |c| c.k = 1 << 31), "a", "leave"),
        (but(fmatmul(), |c| c.bias = Some(Addr::new(INPUT, 0))), "bias", "not in a segment of constants"),
        (
            but(fmatmul(), |c| c.activation = clip(0.0, f32::NAN)),
            "activation.parameters",
            "a parameter is NaN",
        ),
        (but(imatmul(), |c| c.m = 0), "a", "extent 5 is 0"),
        (but(imatmul(), |c| c.a_dtype = I16), "a_dtype", "it can be int8 or uint8"),
        (but(imatmul(), |c| c.b_dtype = F32), "b_dtype", "it can be int8 or uint8"),
        (but(imatmul(), |c| c.counts[0] = 3), "counts", "3 of 'a_zeros' for 2"),
        (but(imatmul(), |c| c.counts[1] = 2), "counts", "2 of 'b_zeros' for 3"),
        (but(imatmul(), |c| c.counts[2] = 0), "counts", "0 of 'scales' for 3"),
        (but(imatmul(), |c| c.weights = Some(ZEROS)), "weights", "either"),
        (but(imatmul(), |c| c.b = None), "weights", "either"),
        (but(tmatmul(), |c| c.dtype = F32), "dtype", "it can be an integer type or float64"),
        (but(tmatmul(), |c| c.k = 0), "a", "extent 5 is 0"),
        (but(blockmatmul(), |c| c.extents[0] = 0), "input", "extent 5 is 0"),
        (but(blockmatmul(), |c| c.blocks[0] = 2), "blocks", "16 integers of 2 bits are none"),
        (but(blockmatmul(), |c| c.blocks[1] = 0), "blocks", "0 integers of 4 bits are none"),
        (but(blockmatmul(), |c| c.blocks[1] = 24), "blocks", "24 integers of 4 bits are none"),
        (
            but(blockmatmul(), |c| (c.blocks[1], c.integers) = (1 << 16, true)),
            "blocks",
            "65536 integers of 4 bits are none",
        ),
        (but(running(), |c| c.dtype = DType::Bool), "dtype", "it can be an integer type"),
        (but(running(), |c| c.dtype = DType::F16), "dtype", "it can be an integer type"),
        (but(running(), |c| c.dtype = DType::BF16), "dtype", "it can be an integer type"),
        (but(running(), |c| c.dtype = DType::F8E5M2), "dtype", "it can be an integer type"),
        (but(running(), |c| c.dtype = DType::U4), "dtype", "it can be an integer type"),
        (but(running(), |c| c.dims[1] = 0), "input", "extent 5 is 0"),
        (but(weigh(), |c| c.taps = 0), "indices", "extent 5 is 0"),
        (but(quantizeby(), |c| c.input.dtype = I8), "input", "it can be float32"),
        (but(quantizeby(), |c| c.output.dtype = I16), "output", "it can be int8 or uint8"),
        (but(qmatmul(), |c| c.m = 0), "a", "extent 5 is 0"),
        (but(qmatmul(), |c| c.n = 0), "b", "extent 5 is 0"),
        (but(qmatmul(), |c| c.k = 33_025), "a", "leave"),
        (but(qmatmul(), |c| c.k = 33_026), "k", "overflow 32 bits"),
        (but(qmatmul(), |c| c.a_target.dtype = I16), "a_target.dtype", "it can be int8 or uint8"),
        (but(qmatmul(), |c| c.a_target.zero_point = 256), "a_target.zero_point", "outside"),
        (but(qmatmul(), |c| c.b_target.dtype = F32), "b_target.dtype", "it can be int8 or uint8"),
        (but(qmatmul(), |c| c.b_target.zero_point = 128), "b_target.zero_point", "outside"),
        (but(qmatmul(), |c| c.result.zero_point = -1), "result.zero_point", "outside"),
        (but(qmatmul(), |c| c.multiplier = f32::INFINITY), "multiplier", "is not finite"),
        // Windows.
        (but(pool(U8), |c| c.window.groups = 2), "window.groups", "is 2, pools have 1"),
        (but(pool(U8), |c| c.window.kernel[1] = 0), "window.kernel", "is 0"),
        (but(pool(U8), |c| c.window.stride[0] = 0), "window.stride", "is 0"),
        (but(pool(U8), |c| c.window.dilation[0] = 0), "window.dilation", "is 0"),
        (but(pool(U8), |c| c.output = output(U8, MAP)), "window", "slides out of the padded input"),
        (but(pool(U8), |c| c.input.dtype = F64), "input", "it can be"),
        (but(pool(U8), |c| c.output.dtype = I8), "output", "it can be uint8"),
        (but(pool(U8), |c| c.output.c = 1), "output", "other images or channels"),
        (but(pool(U8), |c| c.kind = PoolKind::Max), "output_quant", "differs from the input's"),
        (but(pool(U8), |c| c.input_quant = quant_of(0.0, 0)), "input_quant.scale", "above 0"),
        (but(pool(U8), |c| c.output_quant = quant_of(f32::NAN, 0)), "output_quant.scale", "above 0"),
        (but(pool(U8), |c| c.input_quant = quant_of(1.0, -1)), "input_quant.zero_point", "outside"),
        (but(pool(U8), |c| c.output_quant = quant_of(1.0, 256)), "output_quant.zero_point", "outside"),
        (but(pool(I16), |c| c.input_quant = quant_of(1.0, 1)), "input_quant.zero_point", "have 0"),
        (but(pool(I16), |c| c.output_quant = quant_of(1.0, 1)), "output_quant.zero_point", "have 0"),
        (but(pool(I16), |c| c.input_quant = quant_of(-1.0, 0)), "input_quant.scale", "above 0"),
        (
            but(pool(I8), |c| (c.requantize, c.input_quant.scale) = (Requantize::Fixed, 1e30)),
            "output_quant",
            "no fixed-point",
        ),
        (but(pool(I16), |c| c.input_quant.scale = f32::MAX), "output_quant", "no multiplier"),
        (but(gpool(U8), |c| c.output = output(U8, [1, 2, 1, 2])), "output", "more than one row or column"),
        (but(gpool(U8), |c| c.output = output(U8, [1, 1, 1, 1])), "output", "other images or channels"),
        (but(gpool(U8), |c| c.kind = PoolKind::Max), "output_quant", "differs from the input's"),
        (but(gpool(I8), |c| c.output_quant = quant_of(0.0, 0)), "output_quant.scale", "above 0"),
        (but(gpool(I8), |c| c.input_quant = quant_of(1.0, 128)), "input_quant.zero_point", "outside"),
        (but(gpool(I16), |c| c.output_quant = quant_of(f32::INFINITY, 0)), "output_quant.scale", "above 0"),
        (
            but(gpool(I8), |c| (c.requantize, c.input_quant.scale) = (Requantize::Fixed, 1e9)),
            "output_quant",
            "no fixed-point multiplier",
        ),
        // Element by element.
        (but(qadd(I8), |c| c.b.dtype = U8), "b", "it can be int8"),
        (but(qadd(I8), |c| c.output.dtype = U8), "output", "it can be int8"),
        (but(qadd(I8), |c| c.params.a.dtype = F32), "params.a.dtype", "it can be int8 or uint8"),
        (but(qadd(I8), |c| c.params.rb = f32::NAN), "params", "overflow"),
        (but(qadd(I8), |c| c.params.clamp = [3, 2]), "params.clamp", "leave no integer"),
        (but(qadd(I8), |c| c.params.out.zero_point = 300), "params.out.zero_point", "outside"),
        (but(qadd(I16), |c| c.b.dtype = I8), "b", "it can be int16"),
        (but(qadd(I16), |c| c.params.b.dtype = I8), "b", "it can be int16"),
        (but(qadd(I16), |c| c.params.a.zero_point = 1), "a", "have 0"),
        (but(qadd(I16), |c| c.params.clamp = [3, 2]), "params.clamp", "the limits 3 and 2 leave no integer"),
        (but(qadd(I16), |c| c.params.clamp = [32_768, 40_000]), "params.clamp", "leave no integer"),
        (but(qadd(I16), |c| c.params.k = 1.0), "params", "a constant that is not 0"),
        (but(qadd(I16), |c| c.params.ra = f32::NAN), "params", "not finite"),
        (but(qadd(I16), |c| c.params.clamp = [3, 2]), "params.clamp", "leave no integer"),
        (but(qmul(I8), |c| c.a.dtype = F32), "a", "it can be int8 or uint8"),
        (but(qmul(I8), |c| c.b.dtype = I16), "b", "it can be int8 or uint8"),
        (but(qmul(I8), |c| c.zero_points[1] = 128), "zero_points.1", "outside"),
        (but(qmul(I8), |c| c.multiplier = f32::MAX), "multiplier", "overflows"),
        (but(qmul(I8), |c| c.clamp = [3, 2]), "clamp", "leave no integer"),
        (but(qmul(I16), |c| c.output.dtype = I8), "output", "it can be int16"),
        (but(qmul(I16), |c| c.zero_points[2] = -1), "output", "have 0"),
        (but(qmul(I16), |c| c.multiplier = f32::NAN), "multiplier", "is not finite"),
        (but(qmul(I16), |c| c.clamp = [3, 2]), "clamp", "leave no integer"),
        (but(fbinary(), |c| c.a.dtype = I32), "a", "it can be float32"),
        (but(fbinary(), |c| c.b.dtype = F64), "b", "it can be float32"),
        (but(fbinary(), |c| c.output.dtype = I8), "output", "it can be float32"),
        (but(fbinary(), |c| c.kind = BinaryKind::And), "kind", "of reals here"),
        (but(fbinary(), |c| c.dims[2] = 0), "a", "extent 2 is 0"),
        (
            but(fbinary(), |c| c.activation = clip(f32::NAN, 1.0)),
            "activation.parameters",
            "a parameter is NaN",
        ),
        (but(funary(), |c| c.input.dtype = I8), "input", "it can be float32"),
        (but(funary(), |c| c.output.dtype = I8), "output", "it can be float32"),
        (but(funary(), |c| c.output.c = 1), "output", "the extents are"),
        (but(funary(), |c| c.function = clip(f32::NAN, 1.0)), "function.parameters", "a parameter is NaN"),
        (but(table(U8), |c| c.input.dtype = I32), "input", "it can be int8 or uint8"),
        (but(table(U8), |c| c.output.dtype = I16), "output", "it can be int8 or uint8"),
        (but(table(U8), |c| c.output.h = 2), "output", "the extents are"),
        (but(tables(true), |c| c.input.dtype = I16), "input", "it can be int8 or uint8"),
        (but(tables(true), |c| c.output.dtype = I32), "output", "it can be int8 or uint8"),
        (but(tables(false), |c| c.output.c = 1), "output", "the extents are"),
        (but(table(I16), |c| c.output.dtype = I8), "output", "it can be int16"),
        (but(table(I16), |c| c.output.w = 2), "output", "the extents are"),
        // The border of integers.
        (but(quantize(I8), |c| c.input.dtype = I8), "input", "it can be float32"),
        (but(quantize(I8), |c| c.output.dtype = I32), "output", "it can be int8 or uint8 or int16"),
        (but(quantize(I8), |c| c.quant.scale = 0.0), "quant.scale", "not above 0"),
        (but(quantize(I8), |c| c.quant.zero_point = 128), "quant.zero_point", "outside"),
        (but(quantize(I16), |c| c.quant.zero_point = 1 << 15), "quant.zero_point", "does not fit 16 bits"),
        (but(quantize(I8), |c| c.output.n = 2), "output", "the extents are"),
        (but(dequantize(I8), |c| c.output.dtype = I8), "output", "it can be float32"),
        (but(dequantize(I8), |c| c.input.dtype = F32), "input", "it can be int8 or uint8"),
        (but(dequantize(I8), |c| c.quant.scale = f32::NAN), "quant.scale", "not above 0"),
        (but(dequantize(U8), |c| c.quant.zero_point = -1), "quant.zero_point", "outside"),
        (but(dequantize(I16), |c| c.quant.zero_point = -40_000), "quant.zero_point", "does not fit 16 bits"),
        (but(dequantize(I32), |c| c.quant.zero_point = 1), "quant.zero_point", "must be 0 for i32"),
        (but(dequantize(I16), |c| c.output.h = 2), "output", "the extents are"),
        // Softmax.
        (but(qsoftmax(), |c| c.dtype = I16), "dtype", "it can be int8 or uint8"),
        (but(qsoftmax(), |c| c.dims[1] = 0), "input", "is 0"),
        (but(qsoftmax(), |c| c.input_quant.scale = 0.0), "input_quant.scale", "not above 0"),
        (but(qsoftmax(), |c| c.output_quant.scale = f32::NAN), "output_quant.scale", "not above 0"),
        (but(qsoftmax(), |c| c.output_quant.zero_point = 256), "output_quant.zero_point", "outside"),
        (but(fnorm(), |c| c.dims[1] = 0), "input", "is 0"),
        (but(fnorm(), |c| c.epsilon = -1e-5), "epsilon", "below 0"),
        (but(fnorm(), |c| c.epsilon = f32::INFINITY), "epsilon", "no number"),
        (but(fnorm(), |c| c.gamma = Some(Addr::new(INPUT, 0))), "gamma", "not in a segment of constants"),
        (but(fnorm(), |c| c.beta = Some(Addr::new(OUTPUT, 0))), "beta", "not in a segment of constants"),
        (but(fsoftmax(), |c| c.dims[0] = 0), "input", "is 0"),
        (but(flogsoftmax(), |c| c.dims[0] = 0), "input", "is 0"),
        (but(ftriple(), |c| c.dims[2] = 0), "a", "extent 2 is 0"),
        (but(ftriple(), |c| c.then = BinaryKind::Sub), "then", "it can be add or mul"),
        (but(ftriple(), |c| c.c.dtype = I32), "c", "it can be float32"),
        (but(ftriple(), |c| c.output.strides[5] = 0), "dims", "output elements overlap"),
        (but(fattention(), |c| c.heads[1] = 0), "q", "extent 3 is 0"),
        (but(fattention(), |c| c.keys = 0), "k", "extent 4 is 0"),
        (but(fattention(), |c| c.q.dtype = I32), "q", "it can be float32"),
        (but(fattention(), |c| c.output.dtype = DType::F64), "output", "it can be float32"),
        (but(fattention(), |c| c.q.strides[5] = 8), "q", "gaps between the elements of a row"),
        (but(fattention(), |c| c.bias_strides[5] = 0), "bias", "gaps between the elements of a row"),
        (but(fattention(), |c| c.bias_strides[4] = 2), "bias", "not a multiple of 4"),
        (but(fattention(), |c| c.k.strides[5] = 12), "heads", "neither keys nor their elements"),
        (but(fattention(), |c| c.output.strides[4] = 0), "heads", "overlap"),
        (but(rotate(), |c| c.pairs = 3), "dims", "more pairs than a row has"),
        (but(rotate(), |c| c.sines.dtype = I32), "sines", "it can be float32"),
        (but(rotate(), |c| c.output.strides[5] = 8), "output", "gaps between the elements of a row"),
        (but(rotate(), |c| c.output.strides[4] = 8), "dims", "output elements overlap"),
        (but(qnorm(), |c| c.dtype = I16), "dtype", "it can be int8 or uint8"),
        (but(qnorm(), |c| c.dims[1] = 0), "input", "is 0"),
        (but(qnorm(), |c| c.input_quant.scale = 0.0), "input_quant.scale", "not above 0"),
        (but(qnorm(), |c| c.output_quant.scale = f32::NAN), "output_quant.scale", "not above 0"),
        (but(qnorm(), |c| c.output_quant.zero_point = 128), "output_quant.zero_point", "outside"),
        (but(qnorm(), |c| c.epsilon = 0.0), "epsilon", "not above 0"),
        (but(qnorm(), |c| c.epsilon = f32::NAN), "epsilon", "not above 0"),
        (but(qnorm(), |c| c.gamma = Some(Addr::new(INPUT, 0))), "gamma", "not in a segment of constants"),
        (but(qnorm(), |c| c.beta = Some(Addr::new(OUTPUT, 0))), "beta", "not in a segment of constants"),
        // Resampling.
        (but(resize(), |c| c.input.dtype = I16), "input", "it can be float32 or int8 or uint8"),
        (but(blend(), |c| c.output.dtype = I8), "output", "it can be uint8"),
        (but(blend(), |c| c.zero_points[0] = 256), "zero_points", "outside"),
        (but(blend(), |c| c.zero_points[1] = -1), "zero_points", "outside"),
        (but(blend(), |c| c.factor = 0.0), "factor", "not above 0"),
        (but(blend(), |c| c.factor = f32::INFINITY), "factor", "not above 0"),
        (but(resize(), |c| c.output.dtype = F64), "output", "it can be float32"),
        (but(resize(), |c| c.output.c = 1), "output", "has n, c = 1, 1, the input 1, 2"),
        (but(resize(), |c| c.scales = [f32::NAN, 1.0]), "scales", "must be positive and finite"),
        (but(resize(), |c| c.scales = [-1.0, 1.0]), "scales", "must be positive and finite"),
        (but(warp(), |c| c.input.dtype = I32), "input", "it can be float32"),
        (but(warp(), |c| c.output.dtype = U8), "output", "it can be float32"),
        (but(warp(), |c| c.output.c = 1), "output", "has 1 channels, the input 2"),
        (
            but(warp(), |c| {
                c.images = None;
                c.output = output(F32, [2, 2, 2, 2]);
            }),
            "output",
            "no indices say which",
        ),
        (but(warp(), |c| c.border = BorderMode::Constant(f32::NAN)), "border", "is not finite"),
        // Recurrences.
        (but(recurrence(), |c| c.directions = 0), "directions", "one or two are possible"),
        (but(recurrence(), |c| c.directions = 3), "directions", "one or two are possible"),
        (but(recurrence(), |c| c.clip = f32::NAN), "clip", "NaN is not a limit"),
        (but(recurrence(), |c| c.clip = -1.0), "clip", "-1 is not a limit"),
        (but(recurrence(), |c| c.weights = None), "weights", "either constant or given"),
        (but(recurrence(), |c| c.given_weights = Some(ONES)), "weights", "either constant or given"),
        (but(recurrence(), |c| c.weights = Some(Addr::new(INPUT, 0))), "weights", "not in a segment of"),
        (but(recurrence(), |c| c.cell = CellKind::Gru), "vectors", "Gru has none"),
        (but(recurrence(), |c| c.steps = 0), "input", "is 0"),
        (but(recurrence(), |c| c.hidden = 1 << 16), "input", "leave"),
        // Reductions.
        (but(reduce(), |c| c.axes = 1 << 6), "axes", "beyond the sixth"),
        (but(reduce(), |c| c.input.dtype = F16), "input", "half precision"),
        (but(reduce(), |c| c.output.dtype = F64), "output", "it can be float32"),
        (
            but(reduce(), |c| {
                c.input = from(Bool);
                c.output = operand(Addr::new(OUTPUT, 0), Bool, [1, 1, 1, 1, 8, 1]);
            }),
            "kind",
            "of bool",
        ),
        (but(argreduce(), |c| c.axis = 6), "axis", "6 is none of six axes"),
        (but(argreduce(), |c| c.input = from(Bool)), "input", "the type is bool"),
        (but(argreduce(), |c| c.input = from(F16)), "input", "the type is float16"),
        (but(argreduce(), |c| c.output.dtype = F32), "output", "it can be int32 or int64"),
        // Any types.
        (but(binary(), |c| c.b.dtype = I64), "b", "it can be int32"),
        (but(binary(), |c| c.output.dtype = I64), "output", "it can be int32"),
        (but(binary(), |c| c.kind = BinaryKind::Less), "output", "it can be bool"),
        (
            but(binary(), |c| (c.a, c.b, c.output) = (from(F16), from(F16), to(F16))),
            "a",
            "float16 is converted",
        ),
        (
            but(binary(), |c| (c.a, c.b, c.output) = (from(F32), from(F32), to(F32))),
            "kind",
            "of float32 here",
        ),
        (
            but(binary(), |c| (c.a, c.b, c.output) = (from(Bool), from(Bool), to(Bool))),
            "kind",
            "of bool here",
        ),
        (but(binary(), |c| c.kind = BinaryKind::Atan2), "kind", "of int32 here"),
        (
            but(binary(), |c| {
                (c.a, c.b, c.output) = (from(F64), from(F64), to(F64));
                c.kind = BinaryKind::And;
            }),
            "kind",
            "of float64 here",
        ),
        (but(select(), |c| c.condition.dtype = U8), "condition", "it can be bool"),
        (but(select(), |c| c.b.dtype = I32), "b", "it can be float32"),
        (but(select(), |c| c.output.dtype = F64), "output", "it can be float32"),
        (but(convert(), |c| c.dims[5] = 0), "input", "extent 5 is 0"),
        (but(convert(), |c| c.output.strides[4] = 3), "output", "not a multiple of 2"),
        // Indices.
        (but(take(), |c| c.elem_bytes = 5), "elem_bytes", "5 is not 1, 2, 4 or 8"),
        (but(take(), |c| c.count = 0), "count", "1 to 6 are possible"),
        (but(take(), |c| c.count = 7), "count", "1 to 6 are possible"),
        (but(take(), |c| c.indices.dtype = F32), "indices", "it can be int32 or int64"),
        (but(take(), |c| c.extents[0] = 0), "extents", "extent 0 is 0"),
        (but(take(), |c| c.axis_strides[0] = 6), "axis_strides", "6 is not a multiple of 4"),
        (but(take(), |c| c.axis_strides[0] = u64::MAX - 3), "axis_strides", "overflow"),
        (but(take(), |c| c.extents[0] = 400), "src", "leave"),
        (but(take(), |c| (c.count, c.index_stride) = (2, 4)), "index_stride", "4 is not a multiple of 8"),
        (but(take(), |c| (c.count, c.index_stride) = (3, u64::MAX - 7)), "index_stride", "overflow"),
        (but(take(), |c| (c.count, c.index_stride) = (2, 1 << 30)), "indices", "leave"),
        (but(put(), |c| c.dtype = Bool), "dtype", "the type is bool"),
        (but(put(), |c| c.dtype = F16), "dtype", "the type is float16"),
        (but(put(), |c| c.count = 0), "count", "1 to 6 are possible"),
        (but(put(), |c| c.indices.dtype = I16), "indices", "it can be int32 or int64"),
        (but(put(), |c| c.extents[0] = 0), "extents", "extent 0 is 0"),
        (but(put(), |c| c.axis_strides[0] = 6), "axis_strides", "6 is not a multiple of 4"),
        (but(put(), |c| c.extents[0] = 4000), "dst", "leave"),
        (but(put(), |c| c.dst_strides[5] = 3), "dst", "not a multiple of 4"),
        (but(put(), |c| (c.count, c.index_stride) = (2, 4)), "index_stride", "4 is not a multiple of 8"),
        (but(order(), |c| c.dtype = Bool), "dtype", "the type is bool"),
        (but(order(), |c| c.dtype = F16), "dtype", "the type is float16"),
        (but(order(), |c| c.k = 5), "k", "5 of 4 elements"),
        (but(order(), |c| c.k = 0), "output", "is 0"),
        (but(order(), |c| c.dims[2] = 0), "input", "is 0"),
        // Planes, and blocks of channels.
        (but(in_planes(), |c| c.input.blocks = Some(blocks(2))), "input", "blocks of 2 channels"),
        (but(in_planes(), |c| c.input.stride_w = 8), "input", "8 bytes apart, not 4"),
        (but(in_planes(), |c| c.input.stride_h = 6), "input", "not a multiple of 4"),
        (but(in_planes(), |c| c.residual = Some(c.output)), "residual", "no convolution of planes"),
        (but(in_planes(), |c| c.window.groups = 2), "window", "2 groups of planes"),
        (but(in_planes(), |c| c.window.dilation[1] = 2000), "window", "reaches over 6000 columns"),
        (but(in_planes(), |c| c.window.stride[1] = 3), "window", "steps of 3 columns of planes"),
        (but(funary(), |c| c.input.blocks = Some(blocks(2))), "input.blocks", "elements of 4 bytes"),
        (but(table(U8), |c| c.input.blocks = Some(blocks(0))), "input.blocks", "a block of 0 channels"),
        (
            but(table(U8), |c| c.output.blocks = Some(Blocks { fill: 256, ..blocks(2) })),
            "output.blocks",
            "the filling 0x100 has more than 1 bytes",
        ),
    ]
}

fn in_planes() -> FConv {
    let input = FeatureMap { stride_w: 4, stride_h: 16, blocks: Some(blocks(1)), ..fconv().input };
    FConv { input, residual: None, ..fconv() }
}

fn blocks(channels: u32) -> Blocks {
    Blocks { channels, stride: 32, fill: 0 }
}

#[test]
fn each_broken_field_is_named() {
    let rows: Vec<Row> = [addresses(), places(), own()].concat();
    let mut wrong = Vec::new();
    for (index, (command, field, words)) in rows.into_iter().enumerate() {
        let name = command.opcode().mnemonic();
        let bench = bench(&command);
        let got = match bench.executor(Isa::best()) {
            Err(Error::Command { index: 0, offset: 0, mnemonic, field: got, problem })
                if mnemonic == name && got == field && problem.contains(words) =>
            {
                continue;
            }
            Err(error) => error.to_string(),
            Ok(mut executor) => match executor.run(&triune_kernels::Pool::new(1), None) {
                Ok(()) => "it runs".into(),
                Err(error) => format!("not before it runs: {error}"),
            },
        };
        wrong.push(format!("{index}, {name}: '{field}: {words}' was to be refused: {got}"));
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}
