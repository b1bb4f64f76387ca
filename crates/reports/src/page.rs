//! Pages and pictures from templates.

use askama::Template;

/// Renders a template. askama escapes characters by number; the result has their names (`&lt;`), which a reader of the
/// page's source knows. askama also drops the newline at the end of a template.
pub(crate) fn render(template: &impl Template) -> String {
    let mut text = template.render().expect("rendering to a string does not fail");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    [("&#38;", "&amp;"), ("&#60;", "&lt;"), ("&#62;", "&gt;"), ("&#34;", "&quot;")]
        .into_iter()
        .fold(text, |text, (number, name)| text.replace(number, name))
}

/// Text as XML and HTML take it.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML has no way to write these.
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Template)]
    #[template(source = "<p title=\"{{ text }}\">{{ text }}</p>", ext = "html")]
    struct Paragraph {
        text: &'static str,
    }

    #[test]
    fn text_cannot_become_markup() {
        let page = render(&Paragraph { text: "<a> & \"b\" &#60;" });
        let text = "&lt;a&gt; &amp; &quot;b&quot; &amp;#60;";
        assert_eq!(page, format!("<p title=\"{text}\">{text}</p>\n"));
    }

    #[test]
    fn text_in_charts_cannot_become_markup() {
        assert_eq!(escaped("<a b='1'>&\u{7}"), "&lt;a b=&#39;1&#39;&gt;&amp;\u{fffd}");
    }
}
