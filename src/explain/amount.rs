//! Resources and how much of them, as people say it: `6.6 CPU`, not `6600m cpu`. Others are printed as
//! Kubernetes prints them.

use std::fmt;

use crate::gang::quantity::Quantity;

const CPU: &str = "cpu";

/// The name of a resource.
pub(super) struct Resource<'a>(pub(super) &'a str);

impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            CPU => "CPU",
            other => other,
        })
    }
}

impl<'a> Resource<'a> {
    /// So much of it, without its name.
    pub(super) fn number(&self, quantity: Quantity) -> Number<'a> {
        Number {
            resource: self.0,
            quantity,
        }
    }
}

/// How much of a resource.
pub(super) struct Number<'a> {
    resource: &'a str,
    quantity: Quantity,
}

impl fmt::Display for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Kubernetes counts CPU in no smaller parts.
        let quantity = self.quantity.round_up_to_milli();
        let thousandths = quantity.checked_mul(1000).filter(|_| self.resource == CPU);
        let Some(thousandths) = thousandths else {
            return self.quantity.fmt(f);
        };
        let thousandths = thousandths.holds(Quantity::from_units(1));
        let (whole, rest) = (thousandths / 1000, thousandths % 1000);
        match rest {
            0 => write!(f, "{whole}"),
            rest => {
                let digits = format!("{rest:03}");
                write!(f, "{whole}.{}", digits.trim_end_matches('0'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_told_in_cpus_and_all_else_as_kubernetes_prints_it() {
        for (quantity, resource, said) in [
            ("6600m", "cpu", "6.6 CPU"),
            ("3", "cpu", "3 CPU"),
            ("50m", "cpu", "0.05 CPU"),
            ("1m", "cpu", "0.001 CPU"),
            ("1u", "cpu", "0.001 CPU"),
            ("2k", "cpu", "2000 CPU"),
            ("0", "cpu", "0 CPU"),
            ("1536Mi", "memory", "1536Mi memory"),
            ("3", "nvidia.com/gpu", "3 nvidia.com/gpu"),
        ] {
            let (quantity, resource) = (quantity.parse().unwrap(), Resource(resource));
            let told = format!("{} {resource}", resource.number(quantity));
            assert_eq!(told, said);
        }
    }
}
