//! Plain tables without lines, so that they can be read, copied and cut.

use comfy_table::{Table, presets};

use super::output::{Tone, paint};
use super::text;

/// Rows of names and values.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    rows: Vec<Vec<String>>,
    /// Texts at the end of a line that have a colour.
    tones: Vec<(String, Tone)>,
    /// Texts at the beginning of a line that have a colour.
    leading: Vec<(&'static str, Tone)>,
}

impl Sheet {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a name and its value; an empty value adds nothing.
    #[must_use]
    pub(crate) fn row(mut self, name: &str, value: impl Into<String>) -> Self {
        let value = value.into();
        if !value.is_empty() {
            self.rows.push(vec![name.to_owned(), text::lines(&value)]);
        }
        self
    }

    /// Adds a name and a value in colour.
    #[must_use]
    pub(crate) fn toned(mut self, name: &str, value: &str, tone: Tone) -> Self {
        self.tones.push((value.to_owned(), tone));
        self.row(name, value)
    }

    /// Adds a row of a table with as many columns.
    #[must_use]
    pub(crate) fn columns(mut self, cells: &[&str]) -> Self {
        let cells = cells.iter().map(|cell| text::one_line(cell)).collect();
        self.rows.push(cells);
        self
    }

    /// Colours a text wherever a line begins with it.
    #[must_use]
    pub(crate) fn leading(mut self, text: &'static str, tone: Tone) -> Self {
        self.leading.push((text, tone));
        self
    }

    /// Puts another one below.
    #[must_use]
    pub(crate) fn and(mut self, below: Self) -> Self {
        self.rows.extend(below.rows);
        self.tones.extend(below.tones);
        self.leading.extend(below.leading);
        self
    }

    /// The text of the table, its last line's end included.
    pub(crate) fn render(&self, color: bool) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.add_rows(&self.rows);
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let mut shown = String::new();
        for line in table.lines() {
            let mut line = line.trim_end();
            for (text, tone) in &self.leading {
                if let Some(rest) = line.strip_prefix(text) {
                    shown.push_str(&paint(color, *tone, text));
                    line = rest;
                }
            }
            let tone = self
                .tones
                .iter()
                .find_map(|(value, tone)| Some((line.strip_suffix(value.as_str())?, value, tone)));
            match tone {
                Some((before, value, tone)) => {
                    shown.push_str(before);
                    shown.push_str(&paint(color, *tone, value));
                }
                None => shown.push_str(line),
            }
            shown.push('\n');
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_stand_in_columns_without_trailing_blanks() {
        let sheet = Sheet::new()
            .toned("verdict", "GRANTED", Tone::Good)
            .row("a name", "1\n2")
            .row("left out", "");
        assert_eq!(
            sheet.render(false),
            "verdict  GRANTED\na name   1\n         2\n"
        );
        assert!(
            sheet
                .render(true)
                .starts_with("verdict  \u{1b}[32mGRANTED\u{1b}[0m\n")
        );
    }

    #[test]
    fn a_value_cannot_steer_the_terminal() {
        let shown = Sheet::new().row("holder", "a\u{1b}[2J").render(false);
        assert_eq!(shown, "holder  a\\u{1b}[2J\n");
    }
}
