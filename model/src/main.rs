//! The program `lockstep-check`.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    lockstep_model::cli::main()
}
