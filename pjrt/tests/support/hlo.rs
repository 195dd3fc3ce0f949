//! A writer for small f32 HLO modules; field numbers are those of `hlo.proto` and `xla_data.proto`.

const F32: u64 = 11;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[derive(Clone, Default)]
pub struct Message(Vec<u8>);

impl Message {
    fn int(mut self, field: u64, value: u64) -> Self {
        varint(&mut self.0, field << 3);
        varint(&mut self.0, value);
        self
    }

    fn bytes(mut self, field: u64, value: impl AsRef<[u8]>) -> Self {
        varint(&mut self.0, field << 3 | 2);
        varint(&mut self.0, value.as_ref().len() as u64);
        self.0.extend_from_slice(value.as_ref());
        self
    }

    fn message(self, field: u64, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    fn packed(self, field: u64, values: &[u64]) -> Self {
        let mut list = Vec::new();
        for value in values {
            varint(&mut list, *value);
        }
        self.bytes(field, list)
    }
}

fn shape(dims: &[u64]) -> Message {
    let order: Vec<u64> = (0..dims.len() as u64).rev().collect();
    Message::default().int(2, F32).packed(3, dims).message(5, &Message::default().packed(1, &order))
}

fn tuple_shape(parts: &[Message]) -> Message {
    parts.iter().fold(Message::default().int(2, 13), |tuple, part| tuple.message(4, part))
}

/// An instruction of the module under construction, by position.
pub type Value = u64;

/// Builds a module of one computation.
pub struct Module {
    name: String,
    instructions: Vec<Message>,
    shapes: Vec<Message>,
    parameters: Vec<Message>,
    aliases: Vec<(u64, u64)>,
}

impl Module {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), instructions: Vec::new(), shapes: Vec::new(), parameters: Vec::new(), aliases: Vec::new() }
    }

    fn push(&mut self, opcode: &str, shape: Message, operands: &[Value], extra: impl Fn(Message) -> Message) -> Value {
        let id = self.instructions.len() as u64;
        let ids: Vec<u64> = operands.iter().map(|operand| operand + 1).collect();
        let instruction =
            Message::default().bytes(1, format!("i{id}")).bytes(2, opcode).message(3, &shape).int(35, id + 1).packed(36, &ids);
        self.instructions.push(extra(instruction));
        self.shapes.push(shape);
        id
    }

    pub fn parameter(&mut self, dims: &[u64]) -> Value {
        let number = self.parameters.len() as u64;
        self.parameters.push(shape(dims));
        self.push("parameter", shape(dims), &[], |instruction| instruction.int(9, number))
    }

    pub fn binary(&mut self, opcode: &str, left: Value, right: Value) -> Value {
        self.push(opcode, self.shapes[left as usize].clone(), &[left, right], |instruction| instruction)
    }

    /// `[m, k] x [k, n]`; the caller states the result's dimensions.
    pub fn dot(&mut self, left: Value, right: Value, dims: &[u64]) -> Value {
        let numbers = Message::default().packed(1, &[1]).packed(2, &[0]);
        self.push("dot", shape(dims), &[left, right], |instruction| instruction.message(30, &numbers))
    }

    /// Declares that an output shares the memory of a parameter if it may.
    pub fn alias(&mut self, output: u64, parameter: u64) {
        self.aliases.push((output, parameter));
    }

    /// The module with these outputs, as a tuple.
    pub fn finish(mut self, outputs: &[Value]) -> Vec<u8> {
        let parts: Vec<Message> = outputs.iter().map(|output| self.shapes[*output as usize].clone()).collect();
        let result = tuple_shape(&parts);
        let root = self.push("tuple", result.clone(), outputs, |instruction| instruction);
        let mut program = Message::default();
        for parameter in &self.parameters {
            program = program.message(1, parameter);
        }
        program = program.message(2, &result);
        for number in 0..self.parameters.len() {
            program = program.bytes(3, format!("p{number}"));
        }
        let mut computation = Message::default().bytes(1, "main");
        for instruction in &self.instructions {
            computation = computation.message(2, instruction);
        }
        computation = computation.message(4, &program).int(5, 1).int(6, root + 1);
        let mut module =
            Message::default().bytes(1, &self.name).bytes(2, "main").message(3, &computation).message(4, &program).int(5, 1).int(6, 1);
        let mut aliases = Message::default();
        for (output, parameter) in &self.aliases {
            aliases = aliases.message(1, &Message::default().packed(1, &[*output]).int(2, *parameter).int(4, 1));
        }
        if !self.aliases.is_empty() {
            module = module.message(8, &aliases);
        }
        module.0
    }
}

/// `(a + b,)`
pub fn add(dims: &[u64]) -> Vec<u8> {
    let mut module = Module::new("add");
    let (a, b) = (module.parameter(dims), module.parameter(dims));
    let sum = module.binary("add", a, b);
    module.finish(&[sum])
}

/// `(a . b,)` for square matrices of side `n`.
pub fn matmul(n: u64) -> Vec<u8> {
    let mut module = Module::new("matmul");
    let (a, b) = (module.parameter(&[n, n]), module.parameter(&[n, n]));
    let product = module.dot(a, b, &[n, n]);
    module.finish(&[product])
}
