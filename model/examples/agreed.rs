use lockstep_model::{
    agreed_level::{model::*, mutants::*},
    decode::setting::*,
    explore::*,
};
use lockstep_spec::decode::rules::*;
fn run<R: Rules>(name: &str, s: &DecodeSetting) {
    let m = AgreedModel::<R>::new(s.clone());
    let e =
        explore_live(&m, &Settings { threads: 2, most_states: Some(3_000_000), most_time: None }).unwrap();
    println!("{name}: {:?} {:?} {:?} missing {:?}", e.end, e.counts, e.elapsed, e.missing);
    let mut path = e.trail_to_fault();
    if e.end == End::Exhausted {
        match stall(&m, &e) {
            None => {}
            Some(Stall::Trapped { at, states }) => {
                println!("   TRAPPED {states}");
                path = Some(e.trail_to(at));
            }
            Some(Stall::Starved { obligation, at, cycle }) => {
                println!("   STARVED {obligation} cycle {}", cycle.len());
                path = Some(e.trail_to(at));
            }
        }
    }
    if std::env::var("P").is_ok() {
        if let Some(t) = path {
            for (a, s) in t.walk(&m).unwrap() {
                println!("   {:?}", a.map(|a| m.name_of_action(&a)));
                println!("        {:?}", m.lanes(&s)[0].cells);
            }
        }
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n = |i: usize| a[i].parse::<u32>().unwrap();
    let mut s = DecodeSetting::new(2, n(1), n(2), n(3) == 1);
    let o = &a[4];
    s.aborts = o.contains('a');
    if o.contains('t') {
        s.breakage = Breakage::Transfer;
    }
    s.kinds = if o.contains('k') {
        vec![
            RequestKind { prompt: 1, most: 4, stop_at: None },
            RequestKind { prompt: 1, most: 2, stop_at: None },
        ]
    } else {
        s.kinds
    };
    if o.contains('x') {
        s.kinds = vec![RequestKind { prompt: 1, most: 3, stop_at: None }];
    }
    if o.contains('e') {
        s.kinds = vec![
            RequestKind { prompt: 1, most: 4, stop_at: Some(2) },
            RequestKind { prompt: 1, most: 2, stop_at: None },
        ];
    }
    let w = &a[5];
    let go = |x: &str| w == "all" || w == x;
    if go("s") {
        run::<Shipped>("shipped", &s);
    }
    if go("a") {
        run::<AdmitsAhead>("admits-ahead", &s);
    }
    if go("c") {
        run::<FromCopy>("from-copy", &s);
    }
    if go("f") {
        run::<FromCopyFewestTokensVictim>("copy-fewest", &s);
    }
    if go("n") {
        run::<FromCopyRetractsAlone>("copy-alone", &s);
    }
    if go("g") {
        run::<FromCopyGrowsLast>("copy-grows-last", &s);
    }
    if go("u") {
        run::<LaunchesUnfenced>("unfenced", &s);
    }
}
