use lockstep_model::{
    decode::{Surroundings, setting::*},
    explore::*,
    model::WorldModel,
    world::Interleaving,
};
use lockstep_spec::decode::rules::Shipped;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n = |i: usize| a[i].parse::<u32>().unwrap();
    let mut s = DecodeSetting::new(n(1), n(2), n(3), n(4) == 1);
    s.aborts = a[5].contains('a');
    if a[5].contains('h') {
        s.breakage = Breakage::Handshake;
    }
    if a[5].contains('t') {
        s.breakage = Breakage::Transfer;
    }
    if a[5].contains('d') {
        s.breakage = Breakage::Deadline;
    }
    if a[5].contains('s') {
        s.shutdown = true;
    }
    if a[5].contains('l') {
        s.late_facts = true;
    }
    if a[5].contains('F') {
        s.interleaving = Interleaving::Full;
    }
    if a[5].contains('1') {
        s.kinds.truncate(1);
    }
    if a[5].contains('2') {
        s.kinds = vec![s.kinds[1]];
    }
    let m = WorldModel::<Surroundings<Shipped>>::new(s);
    let e =
        explore_live(&m, &Settings { threads: 2, most_states: Some(30_000_000), most_time: None }).unwrap();
    println!("{:?} {:?} {:?} missing {:?}", e.end, e.counts, e.elapsed, e.missing);
    if e.end == End::Exhausted {
        let st = stall(&m, &e);
        println!("stall {st:?}");
        if let Some(Stall::Trapped { at, .. }) = st {
            for (a, s) in e.trail_to(at).walk(&m).unwrap() {
                println!("{:?}", a.map(|a| m.name_of_action(&a)));
                println!("{:?}", s.environment);
            }
        }
    }
    if let Some(t) = e.trail_to_fault() {
        for (a, s) in t.walk(&m).unwrap() {
            println!("{:?}", a.map(|a| m.name_of_action(&a)));
            let _ = s;
        }
    }
}
