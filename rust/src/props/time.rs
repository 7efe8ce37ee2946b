//! ISO-8601 dates and moments as microseconds since 1970 UTC.
//!
//! Read: `YYYY-MM-DD`, then optionally `T` or a space and `HH:MM`, `:SS`, a fraction, and `Z`, `±HH:MM`, `±HHMM` or `±HH`.
//! A date alone is its first moment; without an offset the time is UTC.

/// `None` where the text is no such date.
pub fn parse(s: &str) -> Option<i64> {
    let b = s.as_bytes();
    if !(10..=40).contains(&b.len()) || b[4] != b'-' || b[7] != b'-' {
        return None;
    }
    let (year, month, day) = (digits(&b[..4])?, digits(&b[5..7])?, digits(&b[8..10])?);
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > days_in(year, month) {
        return None;
    }
    let days = days_from_civil(year, month, day);
    let mut us = days * 86_400_000_000;
    let rest = &b[10..];
    if rest.is_empty() {
        return Some(us);
    }
    if !matches!(rest[0], b'T' | b't' | b' ') {
        return None;
    }
    let (clock, offset) = split_offset(&rest[1..])?;
    us += clock_us(clock)?;
    Some(us - offset * 60_000_000)
}

fn digits(b: &[u8]) -> Option<i64> {
    if b.is_empty() || !b.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(b.iter().fold(0, |n, c| n * 10 + i64::from(c - b'0')))
}

/// The clock's part, and the offset in minutes.
fn split_offset(b: &[u8]) -> Option<(&[u8], i64)> {
    if let Some(clock) = b.strip_suffix(b"Z").or_else(|| b.strip_suffix(b"z")) {
        return Some((clock, 0));
    }
    let Some(at) = b.iter().position(|c| matches!(c, b'+' | b'-')) else { return Some((b, 0)) };
    let (clock, off) = b.split_at(at);
    let sign = if off[0] == b'-' { -1 } else { 1 };
    let (h, m) = match &off[1..] {
        [a, b] => (digits(&[*a, *b])?, 0),
        [a, b, c, d] | [a, b, b':', c, d] => (digits(&[*a, *b])?, digits(&[*c, *d])?),
        _ => return None,
    };
    (h < 24 && m < 60).then_some((clock, sign * (h * 60 + m)))
}

fn clock_us(b: &[u8]) -> Option<i64> {
    if b.len() < 5 || b[2] != b':' {
        return None;
    }
    let (h, m) = (digits(&b[..2])?, digits(&b[3..5])?);
    let (mut s, mut fraction) = (0, 0);
    match &b[5..] {
        [] => {}
        [b':', rest @ ..] => {
            let (whole, frac) = rest.split_at_checked(2)?;
            s = digits(whole)?;
            if let [b'.' | b',', f @ ..] = frac {
                digits(f)?;
                let mut six = [b'0'; 6];
                for (to, from) in six.iter_mut().zip(f) {
                    *to = *from;
                }
                fraction = digits(&six)?;
            } else if !frac.is_empty() {
                return None;
            }
        }
        _ => return None,
    }
    (h < 24 && m < 60 && s < 60).then_some(((h * 60 + m) * 60 + s) * 1_000_000 + fraction)
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a Gregorian date (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn dates_and_moments_lie_on_one_line() {
        assert_eq!(parse("1970-01-01"), Some(0));
        assert_eq!(parse("2024-02-29"), Some(1_709_164_800_000_000));
        assert_eq!(parse("2024-01-31T10:00:00+02:00"), parse("2024-01-31 08:00"));
        assert_eq!(parse("1969-12-31T23:59:59.999999Z"), Some(-1));
        assert_eq!(parse("2024-01-31T10:00:00.5-0130"), Some(1_706_700_600_500_000));
        for bad in [
            "2023-02-29",
            "2024-13-01",
            "2024-1-1",
            "2024-01-01T",
            "2024-01-01T25:00",
            "2024-01-01X10:00",
            "0000-01-01",
            "2024-01-01T10:00+99:00",
            "hello world",
            "2024-01-01T10:00:00.",
            "１９７０-01-01",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
