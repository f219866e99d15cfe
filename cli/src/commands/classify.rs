//! `classify`: names in, the verdict on each with its reasons and the advice out.

use jiff::Timestamp;

use crate::args::ClassifyArgs;
use crate::commands::advise::{Advisor, policy};
use crate::commands::measure;
use crate::console::Console;
use crate::exit::Exit;
use crate::render;

/// Measures or replays, judges and prints.
///
/// # Errors
/// When nothing can be measured at all, or the output cannot be written.
pub async fn run(args: &ClassifyArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let advisor = Advisor::new(policy(args.measure.ask.policy.as_deref())?, &args.advice, None)?;
    let measured = measure::run(&args.measure, &advisor.policy, console).await?;
    let report = advisor.report("classify", measured, Timestamp::now());
    render::report(&report, args.output, console)?;
    Ok(report.exit())
}
