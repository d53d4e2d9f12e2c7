//! The table of kernels: source, entry points, parameters and PTX of each.
//!
//! One row a kernel. Everything else names a kernel by [`Kernel`], or one of its entry points by [`Entry`], never by a
//! string. A kernel with several entry points has one for each type of its weights or of the cache.

use std::fmt;

use crate::architecture::Architecture;
use crate::element::Element;

/// A kernel of `cuda/`, in the order of a forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// Rows of a table by number: embeddings, or the last positions of a batch.
    GatherRows,
    /// Root-mean-square normalisation of rows.
    RmsNorm,
    /// The same, of rows to which a summand is added first.
    AddRmsNorm,
    /// A linear map of rows, one a block.
    Gemv,
    /// A linear map of rows, eight a block.
    Gemm,
    /// Turn of queries and keys by position; append of keys and values to the cache.
    RopeAppend,
    /// Causal attention over the paged cache.
    Attention,
    /// The feed-forward's gate.
    SiluMul,
    /// The preferred token of each row among this rank's part of the vocabulary.
    Argmax,
    /// A drawn token of each row, likewise.
    Sample,
    /// The tokens that combined bids stand for.
    ChosenTokens,
    /// Chosen tokens as the next forward's.
    FollowTokens,
    /// Pages of the cache into one piece.
    GatherPages,
    /// One piece into pages of the cache.
    ScatterPages,
    /// Element-wise minimum of the ranks' rows: votes, or bids for tokens.
    VoteMin,
}

/// How a launch passes a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A buffer that the kernel only reads.
    Read,
    /// A buffer that the kernel writes, or reads and writes.
    Write,
    /// A value that comes with the launch; of this many elements in a row, a structure in C++.
    Value(usize),
}

/// A parameter's element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// The same in every entry point.
    Always(Element),
    /// The one that the entry point is for.
    Varies,
    /// Words of 8 bytes, whatever they hold.
    Words,
}

/// A parameter of a kernel, in the order of its C++ signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name there.
    pub name: &'static str,
    /// How it is passed.
    pub pass: Pass,
    /// What it is made of.
    pub kind: Type,
}

/// One entry point of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    kernel: Kernel,
    variant: Option<Element>,
}

/// A row of the table.
struct Row {
    source: &'static str,
    name: &'static str,
    /// Types that there is an entry point for; none if there is just one entry point.
    variants: &'static [Element],
    parameters: &'static [Parameter],
    /// In the order of [`Architecture::ALL`].
    ptx: [&'static str; 3],
}

const WEIGHTS: &[Element] = &[Element::F32, Element::Bf16, Element::F16];
const CACHES: &[Element] = &[Element::F32, Element::Bf16];

const F32: Type = Type::Always(Element::F32);
const U32: Type = Type::Always(Element::U32);
const U64: Type = Type::Always(Element::U64);

const fn read(name: &'static str, kind: Type) -> Parameter {
    Parameter { name, pass: Pass::Read, kind }
}

const fn write(name: &'static str, kind: Type) -> Parameter {
    Parameter { name, pass: Pass::Write, kind }
}

const fn value(name: &'static str, kind: Type) -> Parameter {
    Parameter { name, pass: Pass::Value(1), kind }
}

const fn structure(name: &'static str, fields: usize) -> Parameter {
    Parameter { name, pass: Pass::Value(fields), kind: U32 }
}

/// `source: Kernel = name for variants (parameters)`, one row each.
macro_rules! table {
    ($($source:literal: $kernel:ident = $name:literal for $variants:expr, ($($parameter:expr),* $(,)?);)*) => {
        const TABLE: &[Row] = &[$(Row {
            source: $source,
            name: $name,
            variants: $variants,
            parameters: &[$($parameter),*],
            ptx: [
                include_str!(concat!("../ptx/", $source, ".sm_80.ptx")),
                include_str!(concat!("../ptx/", $source, ".sm_90.ptx")),
                include_str!(concat!("../ptx/", $source, ".sm_100.ptx")),
            ],
        }),*];

        impl Kernel {
            /// Every kernel, in the order of the enum.
            pub const ALL: &[Self] = &[$(Self::$kernel),*];
        }
    };
}

table! {
    "gather_rows": GatherRows = "gather_rows" for WEIGHTS, (
        write("output", F32), read("table", Type::Varies), read("indices", U32), value("entries", U32),
        value("width", U32),
    );
    "rmsnorm": RmsNorm = "rmsnorm" for WEIGHTS, (
        write("output", F32), read("input", F32), read("weight", Type::Varies), value("width", U32),
        value("epsilon", F32),
    );
    "rmsnorm": AddRmsNorm = "add_rmsnorm" for WEIGHTS, (
        write("output", F32), write("hidden", F32), read("summand", F32), read("weight", Type::Varies),
        value("width", U32), value("epsilon", F32),
    );
    "matmul": Gemv = "gemv" for WEIGHTS, (
        write("output", F32), read("input", F32), read("weight", Type::Varies), structure("matrix", 3),
    );
    "matmul": Gemm = "gemm" for WEIGHTS, (
        write("output", F32), read("input", F32), read("weight", Type::Varies), structure("matrix", 3),
    );
    "rope_append": RopeAppend = "rope_append" for CACHES, (
        write("queries", F32), write("cache", Type::Varies), read("keys", F32), read("values", F32),
        read("turns", F32), read("rows", U32), read("positions", U32), read("pages", U32),
        structure("cache shape", 5), structure("page lists", 2), value("heads", U32), value("layer", U32),
        value("context", U32),
    );
    "attention": Attention = "attention" for CACHES, (
        write("output", F32), read("queries", F32), read("cache", Type::Varies), read("pages", U32),
        read("rows", U32), read("positions", U32), read("tiles", U32), structure("cache shape", 5),
        structure("page lists", 2), structure("tiling", 3), value("layer", U32),
    );
    "silu_mul": SiluMul = "silu_mul" for &[], (
        write("output", F32), read("gate", F32), read("up", F32), value("count", U32),
    );
    "choice": Argmax = "argmax" for &[], (
        write("bids", U64), read("logits", F32), value("width", U32), value("first token", U32),
    );
    "choice": Sample = "sample" for &[], (
        write("bids", U64), read("logits", F32), read("seeds", U64), read("temperatures", F32),
        value("width", U32), value("first token", U32),
    );
    "choice": ChosenTokens = "chosen_tokens" for &[], (
        write("tokens", U32), read("bids", U64), value("rows", U32),
    );
    "choice": FollowTokens = "follow_tokens" for &[], (
        write("tokens", U32), read("chosen", U32), read("follows", U32), value("rows", U32), value("choices", U32),
    );
    "pages": GatherPages = "gather_pages" for &[], (
        write("staging", Type::Words), read("cache", Type::Words), read("listed", U32), structure("pages", 2),
    );
    "pages": ScatterPages = "scatter_pages" for &[], (
        write("cache", Type::Words), read("staging", Type::Words), read("listed", U32), structure("pages", 2),
    );
    "vote_min": VoteMin = "vote_min" for &[], (
        write("output", U64), read("votes", U64), value("ranks", U32), value("width", U32),
    );
}

impl Kernel {
    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The stem of the source file, of the PTX files, and of the module that a driver loads.
    #[must_use]
    pub fn source(self) -> &'static str {
        self.row().source
    }

    /// The parameters that a launch passes.
    #[must_use]
    pub fn parameters(self) -> &'static [Parameter] {
        self.row().parameters
    }

    /// The committed PTX of the source, for an architecture.
    #[must_use]
    pub fn ptx(self, architecture: Architecture) -> &'static str {
        self.row().ptx[architecture as usize]
    }

    /// The only entry point, or the one for `element`; `None` if there is no such one.
    #[must_use]
    pub fn entry(self, element: Option<Element>) -> Option<Entry> {
        let variants = self.row().variants;
        let exists = element.map_or(variants.is_empty(), |element| variants.contains(&element));
        exists.then_some(Entry { kernel: self, variant: element })
    }

    /// Every entry point.
    pub fn entries(self) -> impl Iterator<Item = Entry> {
        let variants = self.row().variants;
        let only = variants.is_empty().then_some(None);
        only.into_iter()
            .chain(variants.iter().copied().map(Some))
            .map(move |variant| Entry { kernel: self, variant })
    }
}

impl Entry {
    /// The kernel.
    #[must_use]
    pub fn kernel(self) -> Kernel {
        self.kernel
    }

    /// Every entry point of every kernel.
    pub fn all() -> impl Iterator<Item = Self> {
        Kernel::ALL.iter().flat_map(|kernel| kernel.entries())
    }

    /// The element type of a parameter in this entry point.
    #[must_use]
    pub fn element(self, parameter: &Parameter) -> Element {
        match (parameter.kind, self.variant) {
            (Type::Always(element), _) | (Type::Varies, Some(element)) => element,
            (Type::Words, _) => Element::U64,
            // A test of the table excludes this: a kernel without variants has no parameter that varies.
            (Type::Varies, None) => Element::F32,
        }
    }

    /// The C++ signature, as the CPU's harness prints it: `name: const f32*, u32[3], u32`.
    #[must_use]
    pub fn signature(self) -> String {
        let parameter = |parameter: &Parameter| {
            let element = self.element(parameter);
            match parameter.pass {
                Pass::Read => format!("const {element}*"),
                Pass::Write => format!("{element}*"),
                Pass::Value(1) => element.to_string(),
                Pass::Value(fields) => format!("{element}[{fields}]"),
            }
        };
        let parameters: Vec<_> = self.kernel.parameters().iter().map(parameter).collect();
        format!("{self}: {}", parameters.join(", "))
    }
}

/// The name of the `extern "C"` entry point.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel.row().name)?;
        self.variant.map_or(Ok(()), |element| write!(f, "_{element}"))
    }
}

/// The name without the element type.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The PTX ISA of CUDA 13.0; a driver of the 580 branch refuses anything newer.
    const NEWEST_ISA: (u32, u32) = (9, 0);

    fn every_ptx() -> impl Iterator<Item = (Entry, Architecture, &'static str)> {
        let pairs =
            Entry::all().flat_map(|entry| Architecture::ALL.map(|architecture| (entry, architecture)));
        pairs.map(|(entry, architecture)| (entry, architecture, entry.kernel().ptx(architecture)))
    }

    fn directive<'ptx>(ptx: &'ptx str, name: &str) -> &'ptx str {
        let line = ptx.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in the PTX")).trim()
    }

    /// How PTX declares a parameter, without its name.
    fn declaration(entry: Entry, parameter: &Parameter) -> String {
        match (parameter.pass, entry.element(parameter)) {
            (Pass::Value(1), Element::F32) => ".f32".to_owned(),
            (Pass::Value(1), _) => ".u32".to_owned(),
            (Pass::Value(fields), _) => format!(".align 4 .b8 [{}]", 4 * fields),
            (Pass::Read | Pass::Write, _) => ".u64".to_owned(),
        }
    }

    /// The declarations of an entry's parameters in PTX, likewise.
    fn declared(ptx: &str, entry: Entry) -> Vec<String> {
        let head = format!(".visible .entry {entry}(");
        let (_, rest) = ptx.split_once(&head).unwrap_or_else(|| panic!("{entry}: no entry"));
        let (list, _) = rest.split_once("\n)").expect("an entry's parameter list ends");
        let words = list.lines().filter_map(|line| line.trim().strip_prefix(".param "));
        words
            .map(|line| {
                let (kind, name) = line.rsplit_once(' ').expect("a type and a name");
                let kind = kind.trim_end_matches(" .ptr .align 1");
                let size = name.find('[').map(|start| name[start..].trim_end_matches(','));
                size.map_or_else(|| kind.to_owned(), |size| format!("{kind} {size}"))
            })
            .collect()
    }

    #[test]
    fn table_rows_are_in_the_order_of_the_kernels() {
        assert_eq!(TABLE.len(), Kernel::ALL.len());
        assert!(Kernel::ALL.iter().enumerate().all(|(place, kernel)| *kernel as usize == place));
    }

    #[test]
    fn table_has_variants_exactly_where_a_parameter_varies() {
        for row in TABLE {
            let varies = row.parameters.iter().any(|parameter| parameter.kind == Type::Varies);
            assert_eq!(varies, !row.variants.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn table_names_an_entry_once() {
        let names: BTreeSet<_> = Entry::all().map(|entry| entry.to_string()).collect();
        assert_eq!(names.len(), Entry::all().count());
        assert_eq!(Kernel::Argmax.entry(Some(Element::F32)), None);
        assert_eq!(Kernel::Attention.entry(Some(Element::F16)), None);
    }

    #[test]
    fn table_has_a_row_for_every_source() {
        let folder =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/cuda")).expect("the folder of sources");
        let paths = folder.map(|entry| entry.expect("a readable folder").path());
        let stems: BTreeSet<_> = paths
            .filter(|path| path.extension().is_some_and(|end| end == "cu"))
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        assert_eq!(stems, TABLE.iter().map(|row| row.source.to_owned()).collect());
    }

    #[test]
    fn ptx_has_every_entry_with_the_parameters_of_the_table() {
        for (entry, architecture, ptx) in every_ptx() {
            let expected: Vec<_> =
                entry.kernel().parameters().iter().map(|parameter| declaration(entry, parameter)).collect();
            assert_eq!(declared(ptx, entry), expected, "{entry}.{architecture}");
        }
    }

    #[test]
    fn ptx_has_no_entry_that_the_table_lacks() {
        let mut sources: Vec<_> =
            TABLE.iter().map(|row| (row.source, row.ptx[0].matches(".entry").count())).collect();
        sources.dedup();
        let in_ptx: usize = sources.iter().map(|(_, entries)| entries).sum();
        assert_eq!(in_ptx, Entry::all().count());
    }

    #[test]
    fn ptx_targets_its_architecture_in_an_isa_that_the_supported_driver_accepts() {
        for (entry, architecture, ptx) in every_ptx() {
            assert_eq!(directive(ptx, ".target"), architecture.to_string(), "{entry}");
            let (major, minor) = directive(ptx, ".version").split_once('.').expect("major.minor");
            let version: (u32, u32) = (major.parse().expect("a number"), minor.parse().expect("a number"));
            assert!(version <= NEWEST_ISA, "{entry}.{architecture}: ISA {version:?}");
        }
    }
}
