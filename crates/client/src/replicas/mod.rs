//! Placed files whose bytes lie on several servers: which replica a reader uses, how writers keep replicas equal
//! ([`selection`]), how divergent replicas are found and repaired ([`repair`]), and which replicas must not be read because their server
//! lost memory ([`verified`]).

pub(crate) mod repair;
pub(crate) mod selection;
pub(crate) mod verified;
