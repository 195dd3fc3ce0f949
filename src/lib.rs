//! Clutch.
