//! A Markdown page, taken apart: prose, blocks, commands, headings, links.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

pub fn files_under(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_under(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

pub fn text_under(dir: &str, extension: &str) -> String {
    let files = files_under(&root().join(dir), extension);
    let texts = files.iter().map(|f| std::fs::read_to_string(f).unwrap());
    texts.collect()
}

/// A page: where it is, and what it says.
pub struct Page {
    pub path: PathBuf,
    pub text: String,
}

pub fn pages() -> Vec<Page> {
    let mut paths = files_under(&root().join("docs"), "md");
    assert!(paths.len() >= 9, "{paths:?}");
    paths.push(root().join("README.md"));
    paths.push(root().join("certs/README.md"));
    let page = |path: PathBuf| Page {
        text: std::fs::read_to_string(&path).unwrap(),
        path,
    };
    paths.into_iter().map(page).collect()
}

impl Page {
    pub fn name(&self) -> String {
        let path = self.path.strip_prefix(root()).unwrap();
        path.display().to_string()
    }

    /// The lines outside of fenced blocks.
    pub fn prose(&self) -> Vec<&str> {
        let mut fenced = false;
        let mut lines = Vec::new();
        for line in self.text.lines() {
            if line.starts_with("```") {
                fenced = !fenced;
            } else if !fenced {
                lines.push(line);
            }
        }
        lines
    }

    /// The fenced blocks, with their language.
    pub fn blocks(&self) -> Vec<(&str, &str)> {
        let mut blocks = Vec::new();
        let mut rest = self.text.as_str();
        while let Some((_, after)) = rest.split_once("\n```") {
            let (language, after) = after.split_once('\n').unwrap();
            let (block, after) = after
                .split_once("```")
                .unwrap_or_else(|| panic!("{}: a block without an end", self.name()));
            blocks.push((language, block));
            rest = after;
        }
        blocks
    }

    /// What stands in single backticks. A span may go over a line's end.
    pub fn spans(&self) -> Vec<String> {
        let prose = self.prose();
        let paragraphs = prose.split(|line| line.is_empty() || line.starts_with('|'));
        let tables = prose.iter().filter(|line| line.starts_with('|'));
        let texts = paragraphs.map(|lines| lines.join(" "));
        let texts = texts.chain(tables.map(|line| (*line).to_owned()));
        texts
            .flat_map(|text| {
                let spans = text.split('`').skip(1).step_by(2);
                spans.map(str::to_owned).collect::<Vec<_>>()
            })
            .collect()
    }

    /// The commands that a reader may copy: in `sh` and `console` blocks, and in backticks.
    pub fn commands(&self) -> Vec<String> {
        let mut commands = self.spans();
        for (language, block) in self.blocks() {
            let lines = block.lines();
            match language {
                "sh" => commands.extend(lines.map(str::to_owned)),
                "console" => {
                    let typed = lines.filter_map(|line| line.strip_prefix("$ "));
                    commands.extend(typed.map(str::to_owned));
                }
                _ => {}
            }
        }
        let piped = commands.iter().flat_map(|line| line.split(" | "));
        piped.map(|command| command.trim().to_owned()).collect()
    }

    /// The commands that start with this program, as the words after it.
    pub fn commands_of(&self, program: &str) -> Vec<Vec<String>> {
        let prefix = format!("{program} ");
        let commands = self.commands().into_iter();
        commands
            .filter_map(|command| command.strip_prefix(&prefix).map(words))
            .collect()
    }

    /// What a section has below its heading, with the headings below that.
    pub fn section(&self, heading: &str) -> Page {
        let start = format!("\n## {heading}\n");
        let (_, rest) = self
            .text
            .split_once(&start)
            .unwrap_or_else(|| panic!("{}: no section {heading}", self.name()));
        let text = rest.split("\n## ").next().unwrap();
        Page {
            path: self.path.clone(),
            text: text.to_owned(),
        }
    }

    /// What a reader types, one block after the other: the lines of `sh` blocks, and what follows a
    /// prompt in `console` blocks, with what that is shown to print.
    pub fn typed(&self) -> Vec<Vec<Typed>> {
        let blocks = self.blocks().into_iter();
        blocks
            .filter_map(|(language, block)| match language {
                "sh" => Some(lines_of(block)),
                "console" => Some(prompts_of(block)),
                _ => None,
            })
            .collect()
    }

    /// The anchors that GitHub makes of the headings.
    pub fn anchors(&self) -> BTreeSet<String> {
        let prose = self.prose();
        let headings = prose.iter().filter(|line| line.starts_with('#'));
        headings
            .map(|heading| {
                let title = heading.trim_start_matches('#').trim().to_lowercase();
                let kept = title
                    .chars()
                    .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
                kept.map(|c| if c == ' ' { '-' } else { c }).collect()
            })
            .collect()
    }

    /// The targets of links.
    pub fn links(&self) -> Vec<String> {
        let text = self.prose().join(" ");
        let targets = text.split("](").skip(1);
        targets
            .map(|rest| rest.split(')').next().unwrap().to_owned())
            .collect()
    }
}

/// A command, and what a page shows that it prints.
pub struct Typed {
    pub command: String,
    pub shown: Option<String>,
}

/// A backslash at a line's end goes on in the next.
fn lines_of(block: &str) -> Vec<Typed> {
    let block = block.replace("\\\n", " ");
    let commands = block.lines().filter(|line| !line.is_empty());
    commands
        .map(|line| Typed {
            command: line.to_owned(),
            shown: None,
        })
        .collect()
}

fn prompts_of(block: &str) -> Vec<Typed> {
    let block = format!("\n{block}");
    let commands = block.split("\n$ ").skip(1);
    commands
        .map(|text| {
            let (command, shown) = text.split_once('\n').unwrap_or((text, ""));
            let ended = shown.is_empty() || shown.ends_with('\n');
            Typed {
                command: command.to_owned(),
                shown: Some(format!("{shown}{}", if ended { "" } else { "\n" })),
            }
        })
        .collect()
}

/// Whether a command printed what is shown; a line `…` stands for lines that are left out.
pub fn shows(shown: &str, printed: &str) -> Result<(), String> {
    let mut parts = shown.split("…\n");
    let first = parts.next().unwrap_or_default();
    let mut rest = printed
        .strip_prefix(first)
        .ok_or_else(|| format!("it prints:\n{printed}\nand not:\n{shown}"))?;
    let mut last = first;
    for part in parts {
        let (_, after) = rest
            .split_once(part)
            .ok_or_else(|| format!("{part}\nis not in:\n{printed}"))?;
        (rest, last) = (after, part);
    }
    match last.is_empty() || rest.is_empty() {
        true => Ok(()),
        false => Err(format!("not shown: {rest}")),
    }
}

pub fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}
