//! What could not be looked at, and why: it is said, so that nobody takes silence for an answer.

/// So many are told.
const MOST: usize = 20;

/// What could not be looked at.
#[derive(Debug, Clone, Default)]
pub struct Unseen {
    told: Vec<String>,
    /// Kinds of workloads of which none could be looked at.
    kinds: usize,
}

impl Unseen {
    /// One sentence each.
    pub fn told(&self) -> &[String] {
        &self.told
    }

    pub(super) fn push(&mut self, what: &str, why: &kube::Error) {
        self.say(format!("{what}: {}", reason(why)));
    }

    /// A kind of workloads of which none could be looked at.
    pub(super) fn kind(&mut self, plural: &str, why: &kube::Error) {
        self.unlisted_kind();
        self.push(plural, why);
    }

    /// The same, for what was told already.
    pub(super) fn unlisted_kind(&mut self) {
        self.kinds += 1;
    }

    pub(super) fn kinds(&self) -> usize {
        self.kinds
    }

    pub(super) fn beyond(&mut self, what: &str, first: usize) {
        self.say(format!("{what} beyond the first {first}"));
    }

    pub(super) fn say(&mut self, sentence: String) {
        if self.told.len() < MOST && !self.told.contains(&sentence) {
            self.told.push(sentence);
        }
    }
}

/// What the apiserver says, without what the client puts around it; of one that does not answer, all
/// that is known of why.
pub(crate) fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("{} ({})", status.reason, status.code),
        kube::Error::Service(source) => chain(&**source),
        other => chain(other),
    }
}

/// An error and what it comes from, each once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text += &format!(": {more}");
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_and_not_without_end() {
        let mut unseen = Unseen::default();
        for number in 0..100 {
            unseen.say(format!("a {}", number / 2));
        }
        assert_eq!(unseen.told().len(), MOST);
        assert_eq!(unseen.told()[1], "a 1");
    }

    #[test]
    fn the_apiservers_words_are_told_alone() {
        let status = kube::core::Status::failure("nodes is forbidden", "Forbidden").with_code(403);
        let error = kube::Error::Api(Box::new(status));
        assert_eq!(reason(&error), "nodes is forbidden");
        let status = kube::core::Status::failure("", "Unauthorized").with_code(401);
        let error = kube::Error::Api(Box::new(status));
        assert_eq!(reason(&error), "Unauthorized (401)");
    }
}
