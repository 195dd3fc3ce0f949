//! Runs the text cases under `tests/cases` at the root of the repository.
//!
//! A case starts with `# run: interpret` or `# run: verify-error`, then the graph. After it, one a line: `input` literals in parameter
//! order, `tolerance` (relative to the larger of 1 and the expected magnitude; exact without), and `output` literals, or `error` with the
//! message. With `CLUTCH_BLESS=1` set, failing expectations are rewritten.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clutch_graph::{Graph, InterpError, Literal, Op, interpret, parse, parse_literal, verify};

struct Case {
    path: PathBuf,
    /// Comments and the graph, up to and with its closing brace.
    head: String,
    mode: String,
    inputs: Vec<Literal>,
    tolerance: Option<f64>,
    outputs: Vec<Literal>,
    error: String,
}

fn case_files(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir).expect("the case folder exists").map(|e| e.expect("readable").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            case_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "tc") {
            out.push(path);
        }
    }
}

fn load(path: &Path) -> Case {
    let text = fs::read_to_string(path).expect("readable");
    let name = path.display();
    let mode = text.lines().next().and_then(|l| l.strip_prefix("# run: ")).unwrap_or_else(|| panic!("{name}: no run line")).to_owned();
    let end = text.find("\n}\n").unwrap_or_else(|| panic!("{name}: no end of the graph")) + 3;
    let mut case = Case {
        path: path.to_owned(),
        head: text[..end].to_owned(),
        mode,
        inputs: Vec::new(),
        tolerance: None,
        outputs: Vec::new(),
        error: String::new(),
    };
    for line in text[end..].lines().filter(|l| !l.trim().is_empty()) {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        let literal = || parse_literal(rest).unwrap_or_else(|e| panic!("{name}: {line}: {e}"));
        match key {
            "input" => case.inputs.push(literal()),
            "output" => case.outputs.push(literal()),
            "tolerance" => case.tolerance = Some(rest.parse().unwrap_or_else(|_| panic!("{name}: {line}"))),
            "error" => case.error = rest.to_owned(),
            _ => panic!("{name}: unknown line `{line}`"),
        }
    }
    case
}

/// Read once, before any is blessed.
static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let mut files = Vec::new();
    case_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases"), &mut files);
    files.iter().map(|f| load(f)).collect()
});

/// Elements as `f64`, complex ones as two.
fn numbers(x: &Literal) -> Vec<f64> {
    let part = x.ty().dtype.real_part();
    x.bytes().chunks_exact(part.size()).map(|c| clutch_graph::literal::read_f64(part, c).expect("a real part")).collect()
}

fn close(got: &Literal, want: &Literal, tolerance: Option<f64>) -> bool {
    let Some(tolerance) = tolerance else { return got == want };
    got.ty() == want.ty()
        && numbers(got)
            .iter()
            .zip(numbers(want))
            .all(|(g, w)| *g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tolerance * w.abs().max(1.0))
}

fn print(case: &Case, outputs: &[Literal], error: &str) -> String {
    let mut text = case.head.clone() + "\n";
    let lines = case.inputs.iter().map(|x| format!("input {x}"));
    let lines = lines.chain(case.tolerance.map(|t| format!("tolerance {t:e}")));
    let lines = lines.chain(outputs.iter().map(|x| format!("output {x}")));
    for line in lines.chain((!error.is_empty()).then(|| format!("error {error}"))) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[test]
fn cases_give_what_they_say() {
    let bless = std::env::var_os("CLUTCH_BLESS").is_some();
    let mut failures = String::new();
    assert!(!CASES.is_empty());
    for case in CASES.iter() {
        let (outputs, error) = match case.mode.as_str() {
            "interpret" => match parse(&case.head).map_err(InterpError::from).and_then(|g| interpret(&g, &case.inputs)) {
                Ok(outputs) => (outputs, String::new()),
                Err(e) => (Vec::new(), e.to_string()),
            },
            "verify-error" => (Vec::new(), parse(&case.head).and_then(|g| verify(&g)).map_or_else(|e| e.to_string(), |()| String::new())),
            other => panic!("{}: unknown mode {other}", case.path.display()),
        };
        let same = outputs.len() == case.outputs.len() && outputs.iter().zip(&case.outputs).all(|(g, w)| close(g, w, case.tolerance));
        let failed = (case.mode == "verify-error") == error.is_empty();
        if same && error == case.error && !failed {
            continue;
        }
        let text = print(case, &outputs, &error);
        if bless && !failed {
            fs::write(&case.path, text).expect("the case file is writable");
        } else {
            let _ = writeln!(failures, "{}: got\n{}", case.path.display(), &text[case.head.len()..]);
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn kinds(graph: &Graph, out: &mut BTreeSet<&'static str>) {
    for node in graph.nodes() {
        out.insert(node.op.kind());
        match &node.op {
            Op::While { cond: a, body: b } | Op::Cond { on_true: a, on_false: b } => {
                kinds(a, out);
                kinds(b, out);
            }
            Op::Call(g) => kinds(g, out),
            _ => {}
        }
    }
}

/// Every op is interpreted by some case, so that each has a text form that reads back, an interpreter rule and a numeric class.
#[test]
fn every_op_has_a_case_that_round_trips() {
    let mut covered = BTreeSet::new();
    for case in CASES.iter().filter(|c| c.mode == "interpret") {
        let graph = parse(&case.head).unwrap_or_else(|e| panic!("{}: {e}", case.path.display()));
        let text = graph.to_string();
        assert_eq!(parse(&text).as_ref(), Ok(&graph), "{}", case.path.display());
        assert_eq!(parse(&text).expect("read once").to_string(), text);
        assert!(graph.nodes().iter().all(|n| n.op.numeric_class() <= graph.numeric_class()));
        kinds(&graph, &mut covered);
    }
    let missing: Vec<_> = Op::KINDS.iter().filter(|k| !covered.contains(*k)).collect();
    assert!(missing.is_empty(), "ops without a case: {missing:?}");
}

#[test]
fn op_names_are_distinct() {
    use clutch_graph::op::{BinaryOp, UnaryOp};
    let functions = UnaryOp::ALL.iter().map(|u| u.name()).chain(BinaryOp::ALL.iter().map(|b| b.name()));
    let names: Vec<&str> = Op::KINDS.iter().copied().chain(functions).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}
