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
}
