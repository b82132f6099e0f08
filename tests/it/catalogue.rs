//! The two catalogues of the loop.
