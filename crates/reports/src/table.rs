//! Text in columns: a table, or names side by side.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// A table without lines: columns are as wide as their widest cell, with two spaces between them.
pub struct TextTable {
    alignments: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// An empty table with a column for each alignment.
    pub fn new(alignments: &[Align]) -> TextTable {
        TextTable { alignments: alignments.to_vec(), rows: Vec::new() }
    }

    /// A table whose first row names the columns.
    pub fn with_head(alignments: &[Align], head: &[&str]) -> TextTable {
        let mut table = TextTable::new(alignments);
        table.row(head.iter().map(|cell| (*cell).to_owned()).collect());
        table
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.alignments.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// The table with `indent` spaces before each row.
    pub fn text(&self, indent: usize) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.add_rows(&self.rows);
        for (column, align) in table.column_iter_mut().zip(&self.alignments) {
            column.set_padding((0, 2));
            column.set_cell_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        let mut text = String::new();
        for line in table.lines() {
            text += format!("{:indent$}{line}", "").trim_end();
            text.push('\n');
        }
        text
    }
}

/// Names side by side, down and then across as `ls` does, in as few lines as the width allows.
pub fn columns(names: &[String], width: usize) -> String {
    const GAP: usize = 2;
    let lens: Vec<usize> = names.iter().map(|name| name.chars().count()).collect();
    let widths = |rows: usize| -> Vec<usize> {
        lens.chunks(rows).map(|column| column.iter().copied().max().unwrap_or(0)).collect()
    };
    // Each column but the last takes a character and the gap at least.
    let fewest = names.len().div_ceil(((width + GAP) / (GAP + 1)).max(1)).max(1);
    let fits = |&rows: &usize| {
        let widths = widths(rows);
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1) <= width
    };
    let rows = (fewest..names.len().max(1)).find(fits).unwrap_or(names.len().max(1));
    let widths = widths(rows);
    let mut text = String::new();
    for row in 0..rows.min(names.len()) {
        let mut line = String::new();
        for (column, width) in widths.iter().enumerate() {
            if let Some(name) = names.get(column * rows + row) {
                line += &format!("{name:<width$}", width = width + GAP);
            }
        }
        text += line.trim_end_matches(' ');
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = TextTable::with_head(&[Align::Left, Align::Right], &["NAME", "SIZE"]);
        table.row(vec!["ä".into(), "1".into()]);
        table.row(vec!["longer".into(), "123456".into()]);
        assert_eq!(table.text(1), " NAME      SIZE\n ä            1\n longer  123456\n");
    }

    #[test]
    fn empty_cells_and_empty_tables_are_kept() {
        let mut table = TextTable::new(&[Align::Right, Align::Left]);
        assert_eq!(table.text(2), "");
        table.row(vec!["1".into(), String::new()]);
        table.row(vec![String::new(), "b ".into()]);
        assert_eq!(table.text(0), "1\n   b\n");
    }

    #[test]
    fn names_are_listed_down_and_then_across() {
        let names = ["a", "bb", "c", "d", "e"].map(str::to_owned);
        assert_eq!(columns(&names, 10), "a   c  e\nbb  d\n");
        assert_eq!(columns(&names, 5), "a   d\nbb  e\nc\n");
        assert_eq!(columns(&names, 80), "a  bb  c  d  e\n");
        assert_eq!(columns(&names, 1), "a\nbb\nc\nd\ne\n");
        assert_eq!(columns(&[], 80), "");
    }

    proptest! {
        #[test]
        fn every_name_is_listed_once(
            names in prop::collection::vec("[a-z]{1,9}", 0..40), width in 9usize..90,
        ) {
            let text = columns(&names, width);
            prop_assert!(text.lines().all(|line| line.chars().count() <= width), "{}", text);
            let mut shown: Vec<&str> = text.split_whitespace().collect();
            let mut expected: Vec<&str> = names.iter().map(String::as_str).collect();
            shown.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(shown, expected);
        }
    }
}
