#![allow(missing_docs)]
use pario_simulate::*; use pario_domain::Method;
fn main(){ let a:Vec<String>=std::env::args().collect(); let name=&a[1]; let edge:u64=a[2].parse().unwrap(); let calls:u32=a[3].parse().unwrap();
 let prots=match a[4].as_str(){"server"=>vec![Protocol::Server],"token"=>vec![Protocol::Token],_=>Protocol::ALL.to_vec()};
 let write=a[5]=="write"; let procs:Vec<u32>=a[6].split(',').map(|x|x.parse().unwrap()).collect();
 let mut m=Machine::default(); for kv in &a[7..]{ let (k,v)=kv.split_once('=').unwrap(); *m.number(k).unwrap()=v.parse().unwrap(); }
 for p in prots { for &n in &procs { let w=Workload::named(name,n,Size{edge,calls}).unwrap();
  for method in Method::ALL { let s=Setup{protocol:p,method,write,machine:m.clone(),..Setup::default()}; let t=std::time::Instant::now(); let o=run(&s,&w).unwrap();
   println!("{:6} {:5} agg {:4} {:14} {:9.0} MiB/s io {:.2} req {:7} conf {:7} rev {:7} msg {:8} inter {:7} seeks {:6} waste {:6}M  [{:.2}s {} ev]",p.word(),n,o.aggregators,method.word(),o.bandwidth_mib_s(),o.io_share,o.locks.requests,o.locks.conflicts,o.locks.revocations,o.messages.all(),o.interleaved,o.seeks,o.wasted>>20,t.elapsed().as_secs_f64(),o.events); } } } }
