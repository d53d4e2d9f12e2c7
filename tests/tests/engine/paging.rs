//! Pages: any placement gives the same bits, and a page moved to another cache goes on as if it had been there.

use crate::common::{Request, goldens, model_directory, on_every_rank, step};
use lockstep_runtime::engine::{Alone, CacheError, ForwardError, KvCache, Llama, Row};

fn load() -> Llama {
    Llama::load(&model_directory(), 0, 1).unwrap()
}

fn logits(llama: &mut Llama, tokens: &[u32], page_size: usize, pages: &[u32]) -> Vec<u32> {
    let mut cache = llama.cache(page_size, 100).unwrap();
    let row = Row { tokens, start: 0, pages };
    let logits = llama.logits(&mut cache, &[row], &mut Alone).unwrap();
    logits.iter().map(|logit| logit.to_bits()).collect()
}

#[test]
fn paging_placement_and_page_size_leave_bits_alone() {
    let mut llama = load();
    let tokens: Vec<u32> = (100..137).collect();
    let straight = logits(&mut llama, &tokens, 1, &(0..37).collect::<Vec<_>>());
    let permuted: Vec<u32> = (0..37).map(|page| page * 29 % 100).collect();
    assert!(logits(&mut llama, &tokens, 1, &permuted) == straight);
    assert!(logits(&mut llama, &tokens, 8, &[71, 3, 99, 0, 42]) == straight);
    assert!(logits(&mut llama, &tokens, 64, &[5]) == straight);
}

#[test]
fn paging_rows_may_share_a_prefix() {
    let mut llama = load();
    let (first, second) = ([10, 20, 30, 40, 50], [10, 20, 30, 40, 60]);
    let mut cache = llama.cache(4, 4).unwrap();
    let rows = [
        Row { tokens: &first, start: 0, pages: &[3, 1] },
        Row { tokens: &second[4..], start: 4, pages: &[3, 0] },
    ];
    let shared = llama.logits(&mut cache, &rows, &mut Alone).unwrap();
    let shared: Vec<u32> = shared.iter().map(|logit| logit.to_bits()).collect();
    assert!(
        shared == [logits(&mut llama, &first, 4, &[0, 1]), logits(&mut llama, &second, 4, &[0, 1])].concat()
    );
}

#[test]
fn paging_position_never_written_is_an_error() {
    let mut llama = load();
    let mut cache = llama.cache(4, 4).unwrap();
    let good = Row { tokens: &[1, 2, 3], start: 0, pages: &[0] };
    let gap = Row { tokens: &[7], start: 3, pages: &[2] };
    let error = llama.forward(&mut cache, &[good, gap], &mut Alone).unwrap_err();
    assert!(matches!(error, ForwardError::NotFinite { row: 1 }), "{error}");
}

/// Copies pages `from[i]` of one cache to pages `to[i]` of the other.
fn transfer(source: &KvCache, from: &[u32], target: &mut KvCache, to: &[u32]) {
    let mut bytes = Vec::new();
    for (&from, &to) in from.iter().zip(to) {
        source.read_page(from, &mut bytes).unwrap();
        assert_eq!(bytes.len(), source.page_bytes());
        target.write_page(to, &bytes).unwrap();
    }
}

#[test]
fn paging_decode_goes_on_from_transferred_pages() {
    let golden = goldens().swap_remove(1);
    let on_source: Vec<u32> = (0..9).map(|page| 8 - page).collect();
    let on_target: Vec<u32> = (0..9).map(|page| 3 + page).collect();
    let answers = on_every_rank(2, |llama, mesh| {
        let mut source = llama.cache(8, 9).unwrap();
        let mut requests = [Request::new(&golden.prompt_ids, on_source.clone())];
        (0..10).for_each(|_| drop(step(llama, &mut source, &mut requests, mesh)));
        let mut target = llama.cache(8, 12).unwrap();
        transfer(&source, &on_source[..2], &mut target, &on_target);
        drop(source);
        requests[0].pages = on_target.clone();
        (10..64).for_each(|_| drop(step(llama, &mut target, &mut requests, mesh)));
        requests[0].tokens[golden.prompt_ids.len()..].to_vec()
    });
    assert!(answers.iter().all(|tokens| *tokens == golden.greedy_ids));
}

#[test]
fn paging_transfer_without_a_page_is_noticed() {
    let mut llama = load();
    let mut source = llama.cache(4, 3).unwrap();
    let mut requests = [Request::new(&[1, 2, 3, 4, 5, 6], vec![0, 1, 2])];
    step(&mut llama, &mut source, &mut requests, &mut Alone);
    let mut target = llama.cache(4, 3).unwrap();
    transfer(&source, &[0], &mut target, &[0]);
    let error = llama.forward(&mut target, &[requests[0].row()], &mut Alone).unwrap_err();
    assert!(matches!(error, ForwardError::NotFinite { row: 0 }), "{error}");
}

#[test]
fn paging_page_keeps_its_bits_through_bytes() {
    let mut cache = KvCache::new(2, 1, 2, 4, 3).unwrap();
    assert_eq!(cache.page_bytes(), 2 * 2 * 4 * 2 * 4);
    let content: Vec<u8> = (0..128).collect();
    cache.write_page(1, &content).unwrap();
    let mut bytes = vec![9; 500];
    cache.read_page(1, &mut bytes).unwrap();
    assert_eq!(bytes, content);
    cache.read_page(2, &mut bytes).unwrap();
    assert!(bytes.as_chunks().0.iter().all(|element| f32::from_le_bytes(*element).is_nan()));
}

#[test]
fn paging_wrong_page_bytes_and_sizes_are_errors() {
    let mut cache = KvCache::new(2, 1, 2, 4, 3).unwrap();
    assert!(matches!(cache.read_page(3, &mut Vec::new()), Err(CacheError::Page { page: 3, pages: 3 })));
    assert!(matches!(cache.write_page(u32::MAX, &[0; 128]), Err(CacheError::Page { .. })));
    let error = cache.write_page(0, &[0; 127]).unwrap_err();
    assert!(matches!(error, CacheError::PageBytes { expected: 128, found: 127 }));
    assert!(matches!(KvCache::new(2, 1, 2, 0, 3), Err(CacheError::Size { .. })));
    assert!(matches!(KvCache::new(usize::MAX, 2, 2, 2, 2), Err(CacheError::Size { .. })));
    assert!(matches!(KvCache::new(1 << 40, 2, 2, 2, 2), Err(CacheError::Size { .. })));
}
