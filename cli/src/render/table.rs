//! A report as one row a name, for many names at a glance.

use comfy_table::{Table, presets};

use super::words;
use crate::console::escape;
use crate::report::{FamilyReport, HostReport};

pub(super) fn report(hosts: &[HostReport]) -> String {
    let header = ["HOST", "CLASS", "RESOLUTION", "CONF", "A", "AAAA", "TTL", "TRAITS"];
    columns(header, hosts.iter().map(row))
}

/// Rows under a header in aligned columns, without lines; every cell is escaped.
pub(crate) fn columns<R>(
    header: impl IntoIterator<Item = impl AsRef<str>>,
    rows: impl IntoIterator<Item = R>,
) -> String
where
    R: IntoIterator<Item: AsRef<str>>,
{
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.into_iter().map(|head| escape(head.as_ref())));
    for row in rows {
        table.add_row(row.into_iter().map(|cell| escape(cell.as_ref())));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

fn row(host: &HostReport) -> [String; 8] {
    let recommendation = &host.recommendation;
    let family = |name: &str| host.families.iter().find(|f| f.observation.record_type.to_string() == name);
    let deciding = host.families.iter().find(|f| f.classification.class == recommendation.class);
    let traits =
        deciding.map(|f| f.classification.traits.iter().map(|t| words::trait_name(*t)).collect::<Vec<_>>());
    [
        host.host.to_string(),
        words::class(recommendation.class).to_owned(),
        recommendation.resolution.map_or_else(|| "-".to_owned(), |resolution| words::json_name(&resolution)),
        deciding.map_or_else(String::new, |f| format!("{:.2}", f.classification.confidence)),
        pool(family("A")),
        pool(family("AAAA")),
        deciding
            .and_then(|f| f.observation.ttl)
            .map_or_else(|| "-".to_owned(), |ttl| ttl.strict_s.to_string()),
        traits.unwrap_or_default().join(", "),
    ]
}

/// `4 of 4`, `8 of 380-421`: addresses per answer, of how many.
pub(super) fn pool(family: Option<&FamilyReport>) -> String {
    let Some(family) = family else { return "-".to_owned() };
    let seen = &family.observation;
    match &seen.pool {
        None => "-".to_owned(),
        Some(pool) => match pool.high {
            Some(high) if high == pool.low => format!("{} of {high}", seen.answer_size.median),
            Some(high) => format!("{} of {}-{high}", seen.answer_size.median, pool.low),
            None => format!("{} of {}+", seen.answer_size.median, pool.low),
        },
    }
}
