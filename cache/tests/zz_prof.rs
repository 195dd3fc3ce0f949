mod common;
use clutch_cache::entry::{decode, encode};
use std::time::Instant;
#[test]
fn prof() {
    let ps: Vec<_> = (0..200).map(|s| common::payload(s, 200_000)).collect();
    for _ in 0..3 {
        let t = Instant::now();
        for p in &ps {
            std::hint::black_box(blake3::hash(p));
        }
        println!("blake3 {:?}", t.elapsed() / 200);
        let t = Instant::now();
        for p in &ps {
            std::hint::black_box(zstd::bulk::compress(p, 1).unwrap());
        }
        println!("zstd {:?}", t.elapsed() / 200);
        let c = zstd::bulk::compress(&ps[0], 1).unwrap();
        println!("size {}", c.len());
        for l in [-1, -3, -7] {
            let t = Instant::now();
            for p in &ps {
                std::hint::black_box(zstd::bulk::compress(p, l).unwrap());
            }
            println!("zstd {l} {:?} {}", t.elapsed() / 200, zstd::bulk::compress(&ps[0], l).unwrap().len());
        }
        let t = Instant::now();
        for _ in &ps {
            std::hint::black_box(zstd::bulk::decompress(&c, 200_000).unwrap());
        }
        println!("unzstd {:?}", t.elapsed() / 200);
        let t = Instant::now();
        let e: Vec<_> = ps.iter().map(|p| encode(&common::record("a"), &common::metadata(), p, 0).unwrap().to_vec()).collect();
        println!("encode {:?}", t.elapsed() / 200);
        let t = Instant::now();
        for e in &e {
            decode(e).unwrap();
        }
        println!("decode {:?}", t.elapsed() / 200);
        let r: Vec<Vec<u8>> = (0..200u64)
            .map(|s| {
                let mut o = vec![0; 200_000];
                blake3::Hasher::new().update(&s.to_le_bytes()).finalize_xof().fill(&mut o);
                o
            })
            .collect();
        let t = Instant::now();
        for p in &r {
            std::hint::black_box(zstd::bulk::compress(p, 1).unwrap());
        }
        println!("zstd random {:?}", t.elapsed() / 200);
        let exe = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let ex: Vec<_> = exe.chunks_exact(200_000).take(200).collect();
        let t = Instant::now();
        let mut n = 0;
        for p in &ex {
            n += std::hint::black_box(zstd::bulk::compress(p, 1).unwrap()).len();
        }
        println!("zstd exe {:?} {}", t.elapsed() / ex.len() as u32, n / ex.len());
        let d = common::directory();
        let t = Instant::now();
        for (i, p) in ps.iter().enumerate() {
            std::fs::write(d.path().join(format!("{i}t")), p).unwrap();
            std::fs::rename(d.path().join(format!("{i}t")), d.path().join(format!("{i}"))).unwrap();
        }
        println!("plain write {:?}", t.elapsed() / 200);
        let t = Instant::now();
        for (i, _) in ps.iter().enumerate() {
            std::fs::read(d.path().join(format!("{i}"))).unwrap();
        }
        println!("plain read {:?}", t.elapsed() / 200);
        let t = Instant::now();
        let s = common::open(d.path());
        for (i, p) in ps.iter().enumerate() {
            s.put(&common::record(&i.to_string()), &common::metadata(), p);
        }
        println!("put {:?}", t.elapsed() / 200);
        let t = Instant::now();
        for (i, _) in ps.iter().enumerate() {
            s.get(&common::record(&i.to_string())).unwrap();
        }
        println!("get {:?}", t.elapsed() / 200);
    }
}
