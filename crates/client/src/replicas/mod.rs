//! Placed files whose bytes lie on several servers: which replica a reader uses, how writers keep replicas equal
//! ([`selection`]), and how divergent replicas are found and repaired ([`repair`]).

pub(crate) mod repair;
pub(crate) mod selection;
