//! Complex numbers and the arithmetic that integers, reals and complex numbers share.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A complex number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Complex {
    pub re: f64,
    pub im: f64,
}

impl Complex {
    pub fn new(re: f64, im: f64) -> Self {
        Complex { re, im }
    }

    pub fn polar(radius: f64, angle: f64) -> Self {
        Complex::new(radius * angle.cos(), radius * angle.sin())
    }

    pub fn abs(self) -> f64 {
        self.re.hypot(self.im)
    }

    pub fn exp(self) -> Self {
        if self.im == 0.0 { Complex::new(self.re.exp(), self.im) } else { Complex::polar(self.re.exp(), self.im) }
    }

    pub fn log(self) -> Self {
        Complex::new(self.abs().ln(), self.im.atan2(self.re))
    }

    /// The root with a real part that is not negative.
    pub fn sqrt(self) -> Self {
        if self.re == 0.0 && self.im == 0.0 {
            return Complex::new(0.0, self.im);
        }
        let large = ((self.abs() + self.re.abs()) / 2.0).sqrt();
        let small = self.im.abs() / (2.0 * large);
        let (re, im) = if self.re >= 0.0 { (large, small) } else { (small, large) };
        Complex::new(re, im.copysign(self.im))
    }

    pub fn sin(self) -> Self {
        Complex::new(self.re.sin() * self.im.cosh(), self.re.cos() * self.im.sinh())
    }

    pub fn cos(self) -> Self {
        Complex::new(self.re.cos() * self.im.cosh(), -self.re.sin() * self.im.sinh())
    }

    pub fn tanh(self) -> Self {
        if self.re.abs() > 20.0 {
            return Complex::new(1f64.copysign(self.re), 0.0);
        }
        let denominator = (2.0 * self.re).cosh() + (2.0 * self.im).cos();
        Complex::new((2.0 * self.re).sinh() / denominator, (2.0 * self.im).sin() / denominator)
    }
}

impl Add for Complex {
    type Output = Complex;
    fn add(self, o: Complex) -> Complex {
        Complex::new(self.re + o.re, self.im + o.im)
    }
}

impl Sub for Complex {
    type Output = Complex;
    fn sub(self, o: Complex) -> Complex {
        Complex::new(self.re - o.re, self.im - o.im)
    }
}

impl Mul for Complex {
    type Output = Complex;
    fn mul(self, o: Complex) -> Complex {
        Complex::new(self.re * o.re - self.im * o.im, self.re * o.im + self.im * o.re)
    }
}

impl Div for Complex {
    type Output = Complex;
    fn div(self, o: Complex) -> Complex {
        let norm = o.re * o.re + o.im * o.im;
        Complex::new((self.re * o.re + self.im * o.im) / norm, (self.im * o.re - self.re * o.im) / norm)
    }
}

impl Neg for Complex {
    type Output = Complex;
    fn neg(self) -> Complex {
        Complex::new(-self.re, -self.im)
    }
}

/// A number that sums and products are made of. Integers wrap.
pub(super) trait Number: Copy {
    const ZERO: Self;
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

impl Number for i128 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
}

impl Number for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
}

impl Number for Complex {
    const ZERO: Self = Complex { re: 0.0, im: 0.0 };
    const ONE: Self = Complex { re: 1.0, im: 0.0 };
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
}

/// A number that equations are solved in.
pub(super) trait Field: Number + Sub<Output = Self> + Div<Output = Self> {
    fn root(self) -> Self;
    fn conjugate(self) -> Self;
}

impl Field for f64 {
    fn root(self) -> Self {
        self.sqrt()
    }
    fn conjugate(self) -> Self {
        self
    }
}

impl Field for Complex {
    fn root(self) -> Self {
        Complex::sqrt(self)
    }
    fn conjugate(self) -> Self {
        Complex::new(self.re, -self.im)
    }
}
