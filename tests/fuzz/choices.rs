//! What a generator decides, read from the bytes that an engine gives: the same bytes make the same
//! case, and fewer bytes a simpler one, so that an engine can steer it and shrink it.

/// The bytes that are left. Where they are used up, every choice is the first one.
pub struct Choices<'b>(&'b [u8]);

impl<'b> Choices<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first)
    }

    /// A number below `end`, which is above zero.
    pub fn below(&mut self, end: usize) -> usize {
        let mut number = self.byte();
        if end > 1 << 8 {
            number = number << 16 | self.byte() << 8 | self.byte();
        }
        number % end
    }

    /// Seldom true: once in `times`, and never when the bytes are used up.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }

    /// What is left, as it is.
    pub fn rest(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.0)
    }
}
