//! Distance kernels and quantizers: no I/O, no threads, no dependency on the engine.
