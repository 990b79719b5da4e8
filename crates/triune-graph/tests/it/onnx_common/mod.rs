//! ONNX files made by hand, for forms that the writer does not make.

/// A protobuf message under construction.
#[derive(Clone, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn int(mut self, field: u64, value: i64) -> Self {
        self.varint(field << 3);
        self.varint(value as u64);
        self
    }

    pub(crate) fn float(mut self, field: u64, value: f32) -> Self {
        self.varint(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    pub(crate) fn text(self, field: u64, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    pub(crate) fn message(self, field: u64, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }
}

pub(crate) fn int(name: &str, value: i64) -> Message {
    Message::default().text(1, name).int(3, value).int(20, 2)
}

pub(crate) fn float(name: &str, value: f32) -> Message {
    Message::default().text(1, name).float(2, value).int(20, 1)
}

pub(crate) fn text(name: &str, value: &str) -> Message {
    Message::default().text(1, name).text(4, value).int(20, 3)
}

pub(crate) fn ints(name: &str, values: &[i64]) -> Message {
    values.iter().fold(Message::default().text(1, name), |m, &value| m.int(8, value)).int(20, 7)
}

pub(crate) fn floats(name: &str, values: &[f32]) -> Message {
    values.iter().fold(Message::default().text(1, name), |m, &value| m.float(7, value)).int(20, 6)
}

pub(crate) fn tensor_attribute(name: &str, tensor: &Message) -> Message {
    Message::default().text(1, name).message(5, tensor).int(20, 4)
}

pub(crate) fn node(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[Message]) -> Message {
    let message = inputs.iter().fold(Message::default(), |m, input| m.text(1, input));
    let message = outputs.iter().fold(message, |m, output| m.text(2, output)).text(4, op);
    attributes.iter().fold(message, |m, attribute| m.message(5, attribute))
}

/// A tensor without data; 1 is f32, 7 is i64.
pub(crate) fn tensor(name: &str, data_type: i64, dims: &[i64]) -> Message {
    dims.iter().fold(Message::default(), |m, &dim| m.int(1, dim)).int(2, data_type).text(8, name)
}

pub(crate) fn i64s(name: &str, values: &[i64]) -> Message {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, 7, &[values.len() as i64]).bytes(9, &raw)
}

pub(crate) fn f32s(name: &str, dims: &[i64], values: &[f32]) -> Message {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, 1, dims).bytes(9, &raw)
}

/// A declared f32 value; a name is a symbol, a number an extent, nothing an unknown extent.
pub(crate) fn value(name: &str, dims: &[&str]) -> Message {
    let shape = dims.iter().fold(Message::default(), |shape, dim| {
        let out = match dim.parse() {
            Ok(extent) => Message::default().int(1, extent),
            Err(_) if dim.is_empty() => Message::default(),
            Err(_) => Message::default().text(2, dim),
        };
        shape.message(1, &out)
    });
    let tensor = Message::default().int(1, 1).message(2, &shape);
    Message::default().text(1, name).message(2, &Message::default().message(1, &tensor))
}

/// A model of one graph.
pub(crate) struct Model {
    pub(crate) opset: i64,
    pub(crate) inputs: Vec<Message>,
    pub(crate) outputs: Vec<Message>,
    pub(crate) initializers: Vec<Message>,
    pub(crate) nodes: Vec<Message>,
}

impl Model {
    /// x of the given extents to y, both f32.
    pub(crate) fn new(opset: i64, dims: &[&str], nodes: &[Message]) -> Self {
        Self {
            opset,
            inputs: vec![value("x", dims)],
            outputs: vec![Message::default().text(1, "y")],
            initializers: Vec::new(),
            nodes: nodes.to_vec(),
        }
    }

    pub(crate) fn with(mut self, initializers: &[Message]) -> Self {
        self.initializers.extend_from_slice(initializers);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let graph = self.nodes.iter().fold(Message::default(), |m, node| m.message(1, node)).text(2, "g");
        let graph = self.initializers.iter().fold(graph, |m, tensor| m.message(5, tensor));
        let graph = self.inputs.iter().fold(graph, |m, value| m.message(11, value));
        let graph = self.outputs.iter().fold(graph, |m, value| m.message(12, value));
        let opset = Message::default().text(1, "").int(2, self.opset);
        Message::default().int(1, 7).message(7, &graph).message(8, &opset).0
    }
}
