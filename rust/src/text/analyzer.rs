//! Text to terms. Pure.
//!
//! Text is brought to NFKC and cut into runs. Han, kana, hangul, Thai, Lao, Khmer and Burmese runs, which have no spaces,
//! become overlapping pairs (and, in stored text, single characters). Other runs are words; a run that is joined inside
//! (`foo_bar`, `v1.2.3`, `ZX-81`, `ann@corvo.example`, `FooBar`) stands whole and in its parts. Case is folded; marks of
//! Latin, Greek, Cyrillic, Hebrew and Arabic letters are dropped, those of other scripts are kept. Plain words are stemmed
//! (snowball), identifiers and numbers are not.

use crate::error::{Error, Result};
use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A longer word is cut to this many bytes, at a character.
pub(super) const TERM_BYTES_MAX: usize = 128;

const LANGUAGES: [(&str, Algorithm); 18] = [
    ("arabic", Algorithm::Arabic),
    ("danish", Algorithm::Danish),
    ("dutch", Algorithm::Dutch),
    ("english", Algorithm::English),
    ("finnish", Algorithm::Finnish),
    ("french", Algorithm::French),
    ("german", Algorithm::German),
    ("greek", Algorithm::Greek),
    ("hungarian", Algorithm::Hungarian),
    ("italian", Algorithm::Italian),
    ("norwegian", Algorithm::Norwegian),
    ("portuguese", Algorithm::Portuguese),
    ("romanian", Algorithm::Romanian),
    ("russian", Algorithm::Russian),
    ("spanish", Algorithm::Spanish),
    ("swedish", Algorithm::Swedish),
    ("tamil", Algorithm::Tamil),
    ("turkish", Algorithm::Turkish),
];

/// A term and where it stands. Terms of one run that stand for the same place share a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub term: String,
    pub position: u32,
    /// Counts for the length of the text; whole forms and single characters beside their pairs do not.
    pub counts: bool,
    /// A word that says little.
    pub stop: bool,
}

pub struct Analyzer {
    language: String,
    stemmer: Option<Stemmer>,
}

impl std::fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Analyzer").field("language", &self.language).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    /// Written without spaces.
    Dense,
    Joiner,
    Other,
}

fn class(c: char) -> Class {
    match c as u32 {
        0x0e00..=0x0eff
        | 0x1000..=0x109f
        | 0x1780..=0x17ff
        | 0x1100..=0x11ff
        | 0x3040..=0x30ff
        | 0x3130..=0x318f
        | 0x31f0..=0x31ff
        | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff
        | 0xa960..=0xa97f
        | 0xac00..=0xd7ff
        | 0xf900..=0xfaff
        | 0x20000..=0x323af
            if c.is_alphanumeric() || is_combining_mark(c) || c == 'ー' =>
        {
            Class::Dense
        }
        _ if c.is_alphanumeric() || is_combining_mark(c) => Class::Word,
        _ if matches!(c, '.' | '_' | '-' | '@' | '\'' | '’' | '/' | ':' | '#' | '+' | '&') => Class::Joiner,
        _ => Class::Other,
    }
}

/// Marks that are dropped: of scripts in which a word without them is the same word to a searcher.
fn is_dropped_mark(c: char) -> bool {
    matches!(c as u32, 0x0300..=0x036f | 0x0483..=0x0487 | 0x0591..=0x05bd | 0x05bf..=0x05c7 | 0x0610..=0x061a
        | 0x064b..=0x065f | 0x0670 | 0x06d6..=0x06ed | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0xfe20..=0xfe2f)
}

fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    let mut out = String::with_capacity(word.len());
    for c in word.nfd().filter(|c| !is_dropped_mark(*c)) {
        match c {
            'ß' | 'ẞ' => out.push_str("ss"),
            'ς' => out.push('σ'),
            'ı' => out.push('i'),
            'ø' | 'Ø' => out.push('o'),
            'ł' | 'Ł' => out.push('l'),
            _ => out.extend(c.to_lowercase().filter(|c| !is_dropped_mark(*c))),
        }
    }
    out.nfc().collect()
}

fn cut(mut s: String) -> String {
    if s.len() > TERM_BYTES_MAX {
        let mut end = TERM_BYTES_MAX;
        while !s.is_char_boundary(end) {
            end -= 1;
        }
        s.truncate(end);
    }
    s
}

impl Analyzer {
    /// `None` or "none": no stemming. Otherwise a snowball language by name.
    pub fn new(language: Option<&str>) -> Result<Self> {
        let name = language.unwrap_or("none").to_lowercase();
        let stemmer = match LANGUAGES.iter().find(|(n, _)| *n == name) {
            Some((_, a)) => Some(Stemmer::create(*a)),
            None if name == "none" => None,
            None => {
                let all: Vec<&str> = LANGUAGES.iter().map(|(n, _)| *n).collect();
                return Err(Error::invalid(
                    format!("language {name:?} is not known"),
                    format!("one of {}, or None", all.join(", ")),
                ));
            }
        };
        Ok(Analyzer { language: name, stemmer })
    }

    pub fn language(&self) -> &str {
        &self.language
    }

    /// Terms of a stored text (`query` false) or of a query.
    pub fn tokens(&self, text: &str, query: bool) -> Vec<Token> {
        let normal: String;
        let text = if text.is_ascii() {
            text
        } else {
            normal = text.nfkc().collect();
            &normal
        };
        let mut out = Vec::new();
        let mut position = 0;
        let mut run: Vec<(usize, char)> = Vec::new();
        let mut dense: Vec<char> = Vec::new();
        let chars: Vec<(usize, char)> = text.char_indices().collect();
        let mut i = 0;
        while i <= chars.len() {
            let here = chars.get(i).map(|(_, c)| class(*c));
            let inner = here == Some(Class::Joiner)
                && !run.is_empty()
                && chars.get(i + 1).is_some_and(|(_, c)| class(*c) == Class::Word);
            match here {
                Some(Class::Word) => run.push(chars[i]),
                Some(Class::Joiner) if inner => run.push(chars[i]),
                _ => self.word_run(&mut run, &mut position, &mut out),
            }
            if here == Some(Class::Dense) {
                dense.push(chars[i].1);
            } else {
                dense_run(&mut dense, query, &mut position, &mut out);
            }
            i += 1;
        }
        out
    }

    fn word_run(&self, run: &mut Vec<(usize, char)>, position: &mut u32, out: &mut Vec<Token>) {
        if run.is_empty() {
            return;
        }
        let whole: String = run.iter().map(|(_, c)| *c).collect();
        run.clear();
        let first = *position;
        let mut parts = 0;
        let mut apart = false;
        let quoted = |c: char| matches!(c, '\'' | '’');
        let pieces: Vec<&str> = whole.split(|c| class(c) == Class::Joiner).collect();
        let apostrophes = whole.chars().any(quoted);
        for piece in &pieces {
            // What an apostrophe cuts off: 's, n't, l', d' and the like.
            let scrap = apostrophes && (piece.chars().count() == 1 || matches!(*piece, "re" | "ve" | "ll"));
            for word in humps(piece) {
                apart |= word.len() != piece.len();
                let folded = fold(word);
                if folded.is_empty() || (scrap && pieces.len() > 1) {
                    continue;
                }
                let stop = super::stop::is_stop(&self.language, &folded);
                let term = match &self.stemmer {
                    Some(s) if folded.chars().all(char::is_alphabetic) => s.stem(&folded).into_owned(),
                    _ => folded,
                };
                out.push(Token { term: cut(term), position: *position, counts: true, stop });
                *position += 1;
                parts += 1;
            }
        }
        let joined = whole.chars().any(|c| class(c) == Class::Joiner && !quoted(c));
        if (joined || apart) && parts > 1 {
            out.push(Token { term: cut(fold(&whole)), position: first, counts: false, stop: false });
        }
    }
}

/// Parts of a name: at lower-to-upper changes and between letters and digits. Marks go with their letter.
fn humps(word: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut before: Option<char> = None;
    let mut it = word.char_indices().peekable();
    while let Some((at, c)) = it.next() {
        if is_combining_mark(c) {
            continue;
        }
        let next = it.peek().map(|(_, n)| *n);
        let split = before.is_some_and(|b| {
            (b.is_lowercase() && c.is_uppercase())
                || (b.is_numeric() != c.is_numeric())
                || (b.is_uppercase() && c.is_uppercase() && next.is_some_and(char::is_lowercase))
        });
        if split {
            out.push(&word[start..at]);
            start = at;
        }
        before = Some(c);
    }
    out.push(&word[start..]);
    out
}

fn dense_run(run: &mut Vec<char>, query: bool, position: &mut u32, out: &mut Vec<Token>) {
    if run.is_empty() {
        return;
    }
    let n = run.len();
    let alone = n == 1;
    for i in 0..n {
        let at = *position + i as u32;
        if alone || !query {
            let term = fold(&run[i].to_string());
            if !term.is_empty() {
                out.push(Token { term, position: at, counts: alone, stop: false });
            }
        }
        if i + 1 < n {
            let term: String = run[i..i + 2].iter().collect();
            out.push(Token { term: fold(&term), position: at, counts: true, stop: false });
        }
    }
    *position += n as u32;
    run.clear();
}
