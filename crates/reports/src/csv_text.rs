//! Comma-separated values.

/// A table as CSV, with a header line. Cells that contain commas, quotes or line breaks are quoted.
pub fn csv_text<R>(header: &[String], rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item = String>,
{
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(header);
    for row in rows {
        let _ = writer.write_record(row.into_iter().collect::<Vec<_>>());
    }
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
