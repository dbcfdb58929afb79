//! What a terminal shows: whether bars print there, and text that cannot do anything to it.

use std::fmt::Display;

use crate::controller::inspect::progress::Progress;

/// Where output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sink {
    /// A person looks at it.
    Terminal,
    /// A file or another program.
    Elsewhere,
}

/// How output is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Screen {
    /// With bars, on a screen that can be cleared.
    Drawn,
    /// Lines of text.
    Plain,
}

impl Screen {
    /// Of a sink, by the variables of the environment: plain where nobody looks, where the user wants it
    /// (`NO_COLOR`), and where the terminal would not show bars.
    pub(super) fn of(sink: Sink, variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        let wide = locale.contains("utf-8") || locale.contains("utf8");
        let dumb = set("TERM").is_none_or(|terminal| terminal == "dumb");
        match sink == Sink::Terminal && wide && !dumb && set("NO_COLOR").is_none() {
            true => Self::Drawn,
            false => Self::Plain,
        }
    }
}

/// How large a screen is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl Size {
    /// That of the terminal which the output goes to, where one says it.
    pub(super) fn of_output() -> Option<Self> {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
        (columns > 0 && rows > 0).then_some(Self { columns, rows })
    }
}

/// A text in the place of what a screen shows: over it and not after clearing it, which would flicker,
/// and no more lines than fit, or the first would be gone.
pub(super) fn paint(text: &str, size: Option<Size>) -> String {
    let most = size.map_or(usize::MAX, |size| size.rows.saturating_sub(1).max(2));
    let all = text.lines().count();
    let shown = if all > most { most - 1 } else { all };
    let mut painted = "\x1b[H".to_owned();
    for line in text.lines().take(shown) {
        let line = size.map_or_else(|| line.to_owned(), |size| clip(line, size.columns));
        painted.push_str(&format!("{line}\x1b[K\n"));
    }
    if shown < all {
        painted.push_str(&format!("and {} more lines\x1b[K\n", all - shown));
    }
    painted.push_str("\x1b[J");
    painted
}

/// A line of at most so many characters.
pub(super) fn clip(line: &str, columns: usize) -> String {
    match line.chars().count() > columns {
        true => {
            let kept = line.chars().take(columns.saturating_sub(1));
            kept.chain(['…']).collect()
        }
        false => line.to_owned(),
    }
}

/// The cells of a bar.
const CELLS: usize = 10;

/// How much of a quorum is placed, and how much of the rest exists.
pub(super) fn bar(progress: Progress, quorum: u32) -> String {
    let quorum = (quorum as usize).max(1);
    let cells = |count: usize| count.min(quorum).saturating_mul(CELLS) / quorum;
    let placed = cells(progress.placed);
    let created = cells(progress.created).max(placed);
    let mut bar = "█".repeat(placed);
    bar.push_str(&"▒".repeat(created - placed));
    bar.push_str(&"░".repeat(CELLS - created));
    bar
}

/// One line, of which any part may come from others, without what a terminal would obey: whoever may
/// create a pod or an event, or write a file that is checked, could write escape sequences. Without
/// ends of lines too: a line that others begin is a command in the logs of some CI systems.
pub fn printable(line: &str) -> String {
    let obeyed = |c: char| {
        let turns = matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let ends = matches!(c, '\u{2028}' | '\u{2029}');
        turns || ends || c.is_control()
    };
    let safe = |c: char| if obeyed(c) { '\u{fffd}' } else { c };
    line.chars().map(safe).collect()
}

/// Text for people, which has the ends of lines that are made here and no others.
#[derive(Debug, Default)]
pub(super) struct Lines(String);

impl Lines {
    /// Adds a line.
    pub(super) fn add(&mut self, line: impl Display) {
        self.0.push_str(&printable(&line.to_string()));
        self.0.push('\n');
    }

    /// Adds an empty line.
    pub(super) fn space(&mut self) {
        self.0.push('\n');
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_drawn_only_where_they_print_and_are_wanted() {
        let screen = |sink, variables: &[(&str, &str)]| {
            Screen::of(sink, |name| {
                let mut all = variables.iter();
                let found = all.find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let modern = [("TERM", "xterm-256color"), ("LANG", "en_US.UTF-8")];
        assert_eq!(screen(Sink::Terminal, &modern), Screen::Drawn);
        assert_eq!(screen(Sink::Elsewhere, &modern), Screen::Plain);
        let with = |name, value| [[(name, value)].as_slice(), &modern].concat();
        for (name, value) in [
            ("NO_COLOR", "1"),
            ("TERM", "dumb"),
            ("TERM", ""),
            ("LC_ALL", "C"),
        ] {
            let screen = screen(Sink::Terminal, &with(name, value));
            assert_eq!(screen, Screen::Plain, "{name}={value}");
        }
        let empty = with("NO_COLOR", "");
        assert_eq!(screen(Sink::Terminal, &empty), Screen::Drawn);
        assert_eq!(screen(Sink::Terminal, &[]), Screen::Plain);
    }

    #[test]
    fn what_is_painted_fits_the_screen_and_covers_what_was_there() {
        let size = Size {
            columns: 5,
            rows: 4,
        };
        assert_eq!(
            paint("a\nbcdefg\n", Some(size)),
            "\x1b[Ha\x1b[K\nbcde…\x1b[K\n\x1b[J"
        );
        assert_eq!(
            paint("1\n2\n3\n4\n5\n", Some(size)),
            "\x1b[H1\x1b[K\n2\x1b[K\nand 3 more lines\x1b[K\n\x1b[J"
        );
        assert_eq!(paint("1\n2\n3\n", Some(size)).matches('\n').count(), 3);
        assert_eq!(paint("bcdefg\n", None), "\x1b[Hbcdefg\x1b[K\n\x1b[J");
        assert_eq!(clip("bcdefg", 6), "bcdefg");
    }

    #[test]
    fn a_bar_shows_what_is_placed_and_what_exists() {
        let drawn = |created, placed, quorum| {
            let progress = Progress {
                created,
                placed,
                ..Progress::default()
            };
            bar(progress, quorum)
        };
        assert_eq!(drawn(0, 0, 9), "░░░░░░░░░░");
        assert_eq!(drawn(9, 6, 9), "██████▒▒▒▒");
        assert_eq!(drawn(5, 0, 10), "▒▒▒▒▒░░░░░");
        assert_eq!(drawn(8, 8, 9), "████████░░", "full means all");
        assert_eq!(drawn(12, 12, 9), "██████████");
        assert_eq!(drawn(0, 0, 0), "░░░░░░░░░░");
    }

    #[test]
    fn what_others_write_does_nothing_to_a_terminal() {
        assert_eq!(printable("a\x1b[2Jb\rc\u{202e}d\n"), "a�[2Jb�c�d�");
        assert_eq!(printable("ü 日本"), "ü 日本");
        let mut lines = Lines::default();
        lines.add("a\n::error::b");
        lines.space();
        lines.add("c");
        assert_eq!(lines.into_text(), "a�::error::b\n\nc\n");
    }
}
