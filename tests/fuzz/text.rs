//! Changes of texts: pieces cut out, copied, repeated and put in, from words of the text's language.

use crate::choices::Choices;

/// Changes some bytes. The tokens are what the language is made of.
pub fn change(choices: &mut Choices<'_>, bytes: &mut Vec<u8>, tokens: &[&str]) {
    for _ in 0..choices.below(5) {
        let at = choices.below(bytes.len() + 1);
        let piece = at..(at + choices.below(24)).min(bytes.len());
        match choices.below(8) {
            0 => drop(bytes.drain(piece)),
            1 => {
                let copy = bytes[piece].to_vec();
                let to = choices.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            2 => {
                let times = *choices.pick(&[2, 3, 40, 400]);
                let copies = bytes[piece].repeat(times);
                bytes.splice(at..at, copies);
            }
            3 => bytes.truncate(at),
            4 => bytes
                .splice(at..at, [choices.below(256) as u8])
                .for_each(drop),
            5 => bytes
                .splice(piece, choices.pick(tokens).bytes())
                .for_each(drop),
            _ => bytes
                .splice(at..at, choices.pick(tokens).bytes())
                .for_each(drop),
        }
    }
}

/// Makes a text out of one of the seeds, or out of tokens alone.
pub fn make(choices: &mut Choices<'_>, seeds: &[String], tokens: &[&str]) -> String {
    let mut bytes = match choices.once_in(4) {
        true => {
            let count = choices.below(12);
            let words = (0..count).map(|_| *choices.pick(tokens));
            words.collect::<String>().into_bytes()
        }
        false => choices.pick(seeds).clone().into_bytes(),
    };
    change(choices, &mut bytes, tokens);
    String::from_utf8_lossy(&bytes).into_owned()
}
