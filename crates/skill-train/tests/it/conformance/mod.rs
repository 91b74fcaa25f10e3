//! Recorded data of torch, transformers, TRL and verl, compared case by case.

mod sampling;
