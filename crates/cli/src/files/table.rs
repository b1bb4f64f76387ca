//! Rows in columns: a table, or names side by side.

/// On which side the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table with a column for each of its sides.
pub struct Table<'a> {
    sides: &'a [Side],
    rows: Vec<Vec<String>>,
}

impl<'a> Table<'a> {
    /// Without rows yet.
    pub fn new(sides: &'a [Side]) -> Table<'a> {
        Table { sides, rows: Vec::new() }
    }

    /// With a row of column names.
    pub fn with_head(sides: &'a [Side], head: &[&str]) -> Table<'a> {
        let mut table = Table::new(sides);
        table.row(head.iter().map(|cell| (*cell).to_owned()).collect());
        table
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.sides.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// The table with `indent` spaces before each row.
    pub fn text(&self, indent: usize) -> String {
        let mut widths = vec![0; self.sides.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).zip(self.sides);
            let cells: Vec<String> = cells
                .map(|((cell, &width), side)| match side {
                    Side::Left => format!("{cell:width$}"),
                    Side::Right => format!("{cell:>width$}"),
                })
                .collect();
            let line = format!("{:indent$}{}", "", cells.join("  "));
            text += line.trim_end();
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
        let mut table = Table::with_head(&[Side::Left, Side::Right], &["NAME", "SIZE"]);
        table.row(vec!["ä".into(), "1".into()]);
        table.row(vec!["longer".into(), "123456".into()]);
        assert_eq!(table.text(1), " NAME      SIZE\n ä            1\n longer  123456\n");
    }

    #[test]
    fn names_go_down_and_then_across() {
        let names = ["a", "bb", "c", "d", "e"].map(str::to_owned);
        assert_eq!(columns(&names, 10), "a   c  e\nbb  d\n");
        assert_eq!(columns(&names, 5), "a   d\nbb  e\nc\n");
        assert_eq!(columns(&names, 80), "a  bb  c  d  e\n");
        assert_eq!(columns(&names, 1), "a\nbb\nc\nd\ne\n");
        assert_eq!(columns(&[], 80), "");
    }

    proptest! {
        #[test]
        fn every_name_stands_there_once(
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
