//! The numbers of customers by class from none to all, in the order in which solvers go through them.

use super::network::NetworkError;

/// All vectors of customers by class up to the network's. They are numbered in mixed radix, so that the vector with one
/// customer fewer of a class is that class's stride before.
pub(super) struct Lattice {
    customers: Vec<u32>,
    /// By class.
    pub strides: Vec<usize>,
    /// How many vectors.
    pub points: usize,
}

impl Lattice {
    /// `of_point` is how many numbers a solver keeps for each vector; it may keep `most` together.
    pub fn new(customers: &[u32], of_point: u64, most: u64) -> Result<Lattice, NetworkError> {
        let mut strides = Vec::with_capacity(customers.len());
        let mut points = 1_u64;
        for customers in customers {
            strides.push(points as usize);
            points = points.saturating_mul(u64::from(*customers) + 1);
        }
        let needed = points.saturating_mul(of_point.max(1));
        if needed > most {
            return Err(NetworkError::TooLarge { needed, of: "numbers in memory", most });
        }
        Ok(Lattice { customers: customers.to_vec(), strides, points: points as usize })
    }

    /// Goes from `vector` to the next one.
    pub fn advance(&self, vector: &mut [u32]) {
        for (count, most) in vector.iter_mut().zip(&self.customers) {
            if *count < *most {
                *count += 1;
                return;
            }
            *count = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failing test may panic anywhere.
    use super::*;

    #[test]
    fn vectors_are_numbered_by_strides() {
        let lattice = Lattice::new(&[2, 1, 3], 1, 24).unwrap();
        let mut vector = [0; 3];
        for number in 0..lattice.points {
            let by_strides: usize = vector.iter().zip(&lattice.strides).map(|(n, stride)| *n as usize * stride).sum();
            assert_eq!(by_strides, number);
            lattice.advance(&mut vector);
        }
        assert_eq!((lattice.points, vector), (24, [0; 3]));
    }

    #[test]
    fn too_many_numbers_are_refused_without_overflow() {
        assert!(Lattice::new(&[2, 1, 3], 2, 47).is_err());
        let refused = Lattice::new(&[u32::MAX; 9], 1, 1000).err().unwrap().to_string();
        assert!(refused.contains("numbers in memory, more than 1000"), "{refused}");
    }
}
