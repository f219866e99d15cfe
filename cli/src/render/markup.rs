//! Markdown, the one writer and escaper of it: text that may come from DNS, a file or a proxy in, tables and lines that
//! show it literally out. Every form for an issue or a wiki is made of these.

use std::fmt::Write as _;

use crate::console::escape;

/// A table under its header, with every cell escaped.
pub(crate) fn table<R>(
    header: impl IntoIterator<Item = impl AsRef<str>>,
    rows: impl IntoIterator<Item = R>,
    out: &mut String,
) where
    R: IntoIterator<Item: AsRef<str>>,
{
    let columns = row(header, out);
    let _ = writeln!(out, "|{}", "---|".repeat(columns));
    for cells in rows {
        row(cells, out);
    }
}

fn row(cells: impl IntoIterator<Item = impl AsRef<str>>, out: &mut String) -> usize {
    let cells: Vec<String> = cells.into_iter().map(|cell| clean(cell.as_ref())).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
    cells.len()
}

/// Text as Markdown shows it literally; backticks stay, since the sentences use them for literals.
pub(crate) fn clean(text: &str) -> String {
    escape(text).chars().fold(String::new(), |mut out, c| {
        match c {
            '\n' => out.push(' '),
            // A backslash would do, but not for whatever looks for tags in the text.
            '<' => out.push_str("&lt;"),
            '>' | '|' | '*' | '_' | '\\' | '#' => out.extend(['\\', c]),
            c => out.push(c),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_stays_in_its_cell() {
        let mut out = String::new();
        table(["name", "text"], [["a|b", "<script>\n\u{1b}[31m"]], &mut out);
        assert_eq!(out, "| name | text |\n|---|---|\n| a\\|b | &lt;script\\> \\\\u{1b}[31m |\n");
    }
}
