//! Comma-separated values.

/// A table as CSV, with a header line. Cells that contain commas, quotes or line breaks are quoted.
pub fn csv_text<R>(header: &[String], rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item = String>,
{
    csv_row(header) + &rows.into_iter().map(csv_row).collect::<String>()
}

/// A row as CSV, with its line break.
pub(crate) fn csv_row<C: AsRef<[u8]>>(cells: impl IntoIterator<Item = C>) -> String {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(cells);
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_cells_are_quoted() {
        let header = ["name".to_owned(), "value".to_owned()];
        let rows = [vec!["a,b".to_owned(), "say \"x\"".to_owned()], vec!["plain".to_owned(), "1".to_owned()]];
        assert_eq!(csv_text(&header, rows), "name,value\n\"a,b\",\"say \"\"x\"\"\"\nplain,1\n");
    }
}
