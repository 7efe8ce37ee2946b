//! What a query text asks for. A query is data: any text is one.
//!
//! `"words in quotes"` (also “ ”) must stand together; `+word` must occur; an unbalanced quote and every other sign are
//! plain text.

/// A query before it is analysed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Everything, for scoring.
    pub(super) text: String,
    pub(super) phrases: Vec<String>,
    pub(super) required: Vec<String>,
}

impl Query {
    pub fn parse(text: &str) -> Self {
        let mut q = Query::default();
        let mut rest = text;
        while let Some(open) = rest.find(['"', '“']) {
            let (before, quoted) = rest.split_at(open);
            let mut it = quoted.chars();
            let sign = it.next().unwrap_or('"');
            let inner = it.as_str();
            let Some(close) = inner.find(if sign == '“' { ['”', '"'] } else { ['"', '”'] }) else {
                break;
            };
            q.plain(before);
            let phrase = inner[..close].trim();
            if !phrase.is_empty() {
                q.phrases.push(phrase.to_owned());
                q.text.push(' ');
                q.text.push_str(phrase);
            }
            let after = &inner[close..];
            rest = &after[after.chars().next().map_or(0, char::len_utf8)..];
        }
        q.plain(rest);
        q
    }

    fn plain(&mut self, text: &str) {
        for word in text.split_whitespace() {
            if let Some(w) = word.strip_prefix('+')
                && w.chars().next().is_some_and(char::is_alphanumeric)
            {
                self.required.push(w.to_owned());
            }
            self.text.push(' ');
            self.text.push_str(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Query;

    #[test]
    fn quotes_and_plus_signs_ask_and_everything_else_is_text() {
        let q = Query::parse("red \"big bike\" +fast “old town” c++ + -x \"open");
        assert_eq!(q.phrases, ["big bike", "old town"]);
        assert_eq!(q.required, ["fast"]);
        assert_eq!(q.text, " red big bike +fast old town c++ + -x \"open");
        assert_eq!(Query::parse("\"\"“”").phrases, Vec::<String>::new());
    }
}
