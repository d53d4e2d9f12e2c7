//! The routes as SGLang's clients see them: what they send, word for word, and what they must get.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use axum::body::Body;
use hyper::Request;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use lockstep_spec::ids::Epoch;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::support::Server;
use crate::bootstrap::Registration;
use crate::bootstrap::registry::Place;
use crate::bootstrap::server::{asked, routes};

const GROUP: &str = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1";
const FIRST: &str = "/route?prefill_dp_rank=0&prefill_cp_rank=0&target_tp_rank=0&target_pp_rank=0";

/// What rank 0 of a group of one registers, with a field that this server does not know.
fn registration() -> Value {
    json!({
        "attn_tp_size": 1, "attn_tp_rank": 0, "attn_cp_size": 1, "attn_cp_rank": 0, "attn_dp_size": 1,
        "attn_dp_rank": 0, "pp_size": 1, "pp_rank": 0, "system_dp_size": 1, "system_dp_rank": 0,
        "rank_ip": "10.1.2.3", "rank_port": 40123, "page_size": 64, "kv_cache_dtype": "auto",
        "load_balance_method": "round_robin", "enable_dsa_cache_layer_split": false,
        "prefill_http_port": 30000, "decode_allocation_policy": "early", "kv_layout": null,
        "dsv41_spec_layout": null, "enable_kv_cache_sharding": false, "a_field_of_tomorrow": [1],
    })
}

fn ask(server: &Server, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn parsed((status, body): (u16, String)) -> Value {
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn routes_answer_as_sglang_expects() {
    let server = Server::start();
    assert_eq!(ask(&server, "GET", "/health", ""), (200, "OK".into()));
    let (status, text) = ask(&server, "GET", GROUP, "");
    assert_eq!(status, 503);
    assert!(text.starts_with("Prefill server not fully registered yet"), "{text}");
    assert_eq!(ask(&server, "GET", FIRST, "").0, 503);
    assert_eq!(ask(&server, "PUT", "/route", &registration().to_string()), (200, "OK".into()));
    let info = parsed(ask(&server, "GET", GROUP, ""));
    let expected = json!({
        "attn_tp_size": 1, "attn_cp_size": 1, "dp_size": 1, "pp_size": 1, "page_size": 64, "kv_cache_dtype": "auto",
        "follow_bootstrap_room": false, "enable_dsa_cache_layer_split": false, "dsv41_spec_layout": null,
        "kv_layout": null, "decode_allocation_policy": "early", "enable_kv_cache_sharding": false,
        "prefill_http_port": 30000, "target_tp_rank": null, "target_tp_ranks": null, "target_cp_ranks": null,
        "target_pp_ranks": null, "required_dst_info_num": null, "required_prefill_response_num": null, "epoch": 1,
    });
    assert_eq!(info, expected);
    let found = parsed(ask(&server, "GET", FIRST, ""));
    assert_eq!(found, json!({"rank_ip": "10.1.2.3", "rank_port": 40123, "epoch": 1}));
    assert_eq!(ask(&server, "GET", &FIRST.replace("tp_rank=0", "tp_rank=1"), "").0, 404);
    server.raise_epoch();
    assert_eq!(ask(&server, "GET", FIRST, "").0, 503, "an old epoch's rank is nobody's");
}

#[test]
fn routes_refuse_what_is_incomplete_or_differs() {
    let server = Server::start();
    for query in
        ["/route", "/route?prefill_dp_rank=0", &FIRST.replace("rank=0", "rank="), &FIRST.replace("=0", "=x")]
    {
        assert_eq!(ask(&server, "GET", query, "").0, 400, "{query}");
    }
    assert_eq!(ask(&server, "GET", &GROUP.replacen("-1", "0", 1), "").0, 400);
    assert_eq!(ask(&server, "PUT", "/route", "{}").0, 400);
    assert_eq!(ask(&server, "PUT", "/route", "\u{0}").0, 400);
    assert_eq!(ask(&server, "DELETE", "/route", "").0, 405);
    assert_eq!(ask(&server, "PUT", "/route", &registration().to_string()).0, 200);
    let mut other = registration();
    other["decode_allocation_policy"] = json!("prefill_complete");
    let (status, text) = ask(&server, "PUT", "/route", &other.to_string());
    assert_eq!(status, 400);
    assert!(text.contains("decode_allocation_policy"), "{text}");
    let long = format!("{{\"bootstrap_rooms\": [{}1]}}", "1,".repeat(600_000));
    assert_eq!(ask(&server, "POST", "/query_dp_ranks", &long).0, 400);
}

#[test]
fn routes_tell_who_serves_a_room() {
    let server = Server::start();
    let room = |room: u64, dp_rank: u32| json!({"bootstrap_room": room, "dp_rank": dp_rank}).to_string();
    for (number, dp_rank) in [(1, 3), (u64::MAX >> 1, 4), (1, 5)] {
        assert_eq!(ask(&server, "POST", "/register_dp_rank", &room(number, dp_rank)), (200, "OK".into()));
    }
    let asked = json!({"bootstrap_rooms": [1, 2, u64::MAX >> 1]}).to_string();
    let told = parsed(ask(&server, "POST", "/query_dp_ranks", &asked));
    assert_eq!(told, json!({"1": 5, "9223372036854775807": 4}));
    assert_eq!(ask(&server, "POST", "/register_dp_rank", "{\"bootstrap_room\": -1, \"dp_rank\": 0}").0, 400);
}

/// Some JSON, often with names that mean something here.
fn documents() -> impl Strategy<Value = Value> {
    let names: Vec<String> = registration().as_object().unwrap().keys().cloned().collect();
    let names = prop_oneof![prop::sample::select(names), "[a-z_]{0,8}"];
    let leaves = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Quarters: what is read back is the same number.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 4.0)),
        ".{0,12}".prop_map(Value::from),
    ];
    leaves.prop_recursive(3, 32, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..24)
                .prop_map(|fields| Value::from(fields.into_iter().collect::<serde_json::Map<_, _>>())),
        ]
    })
}

/// What the routes answer to a body, in this process.
fn statuses(body: &[u8]) -> Vec<u16> {
    let routes = TowerToHyperService::new(routes(|| Epoch(1), None));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let status = |(method, path): (&str, &str)| {
        let request = Request::builder().method(method).uri(path).body(Body::from(body.to_vec())).unwrap();
        runtime.block_on(routes.call(request)).unwrap().status().as_u16()
    };
    [("PUT", "/route"), ("GET", GROUP), ("POST", "/register_dp_rank"), ("POST", "/query_dp_ranks")]
        .into_iter()
        .map(status)
        .collect()
}

/// What stands behind a name in a query: a rank, any number, no number.
fn query_values() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("-1".to_owned()),
        3 => any::<u32>().prop_map(|number| number.to_string()),
        1 => any::<i128>().prop_map(|number| number.to_string()),
        1 => "[^&]{0,12}",
    ]
}

proptest! {
    #[test]
    fn json_of_any_kind_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), document in documents()) {
        for body in [&bytes[..], document.to_string().as_bytes()] {
            for status in statuses(body) {
                prop_assert!(matches!(status, 200 | 400 | 503), "{status}");
            }
        }
    }

    #[test]
    fn query_of_any_kind_names_a_rank_or_none_or_is_refused(values in prop::array::uniform4(query_values()), noise in ".{0,40}") {
        drop(asked(&noise));
        let [dp, cp, tp, pp] = &values;
        let read = asked(&format!("prefill_dp_rank={dp}&prefill_cp_rank={cp}&target_tp_rank={tp}&target_pp_rank={pp}&{noise}"));
        let ranks: Vec<u32> = values.iter().filter_map(|value| value.parse().ok()).collect();
        match ranks[..] {
            [dp, cp, tp, pp] => prop_assert_eq!(read, Ok(Some(Place { dp, cp, tp, pp }))),
            _ if values.iter().all(|value| value == "-1") => prop_assert_eq!(read, Ok(None)),
            _ => prop_assert!(read.is_err()),
        }
    }

    /// One field that is something else, or is not there: read, or refused, and what is read says the same again.
    #[test]
    fn json_of_a_rank_survives_any_change(field in any::<prop::sample::Index>(), value in prop_oneof![documents(), ".{0,12}".prop_map(Value::from)], gone in any::<bool>()) {
        let mut changed = registration();
        let fields = changed.as_object_mut().unwrap();
        let name = fields.keys().nth(field.index(fields.len())).unwrap().clone();
        if gone { fields.remove(&name); } else { fields.insert(name, value); }
        let [put, get, ..] = statuses(changed.to_string().as_bytes())[..] else { panic!("too few") };
        prop_assert!(matches!((put, get), (200, 200 | 503) | (400, 503)), "{put}, then {get}");
        if let Ok(read) = serde_json::from_value::<Registration>(changed) {
            let again = serde_json::to_string(&read).unwrap();
            prop_assert_eq!(serde_json::from_str::<Registration>(&again).unwrap(), read);
        }
    }
}
