//! paged_decode.rs: gqa from Rust without a crate: one decode step on keys and values that lie in pages.
//! Owns: two sequences of different lengths, one new query token each, on the CPU in bfloat16; attention written out as
//! a loop, whose numbers the library's must be. Exits with 1 where they are not.
//! Never: needs anything but rustc, pkg-config and an installed gqa; where the loader does not know its folder,
//! LD_LIBRARY_PATH does.
//!
//!   rustc -O paged_decode.rs $(pkg-config --libs gqa) && ./paged_decode

use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem::size_of;
use std::ptr::{null, null_mut};

// What of dlpack.h and gqa.h is used. A gqa_call may end after window_size, a gqa_options before checked: their `size`
// says how much of them there is.
#[repr(C)]
struct DLDevice(c_int, i32); // type, number
#[repr(C)]
struct DLDataType(u8, u8, u16); // code, bits, lanes
#[repr(C)]
struct DLTensor {
    data: *const c_void, device: DLDevice, ndim: i32, dtype: DLDataType, // the library writes to the data of `out`
    shape: *const i64, strides: *const i64, byte_offset: u64,
}
#[repr(C)]
struct Options {
    size: usize, device: *const c_char, cache_path: *const c_char, cache_mode: c_int, tuning: c_int,
    tuning_budget: f64, threads: c_int, nvrtc_path: *const c_char, log: *const c_void, log_user: *const c_void,
}
#[repr(C)]
struct Call {
    size: usize, scale: f32, causal: c_int, lse: *const DLTensor, stream: *const c_void,
    cache_seqlens: *const DLTensor, page_table: *const DLTensor, window_size: *const i32,
}
type Handle = *mut c_void;
extern "C" {
    fn gqa_version() -> c_int;
    fn gqa_last_error() -> *const c_char;
    fn gqa_create(options: *const Options, handle: *mut Handle) -> c_int;
    fn gqa_destroy(handle: Handle);
    fn gqa_run_ex(handle: Handle, q: *const DLTensor, k: *const DLTensor, v: *const DLTensor, out: *const DLTensor,
                  call: *const Call) -> c_int;
}

const CPU: c_int = 1; // kDLCPU
const INT32: (u8, u8) = (0, 32); // kDLInt
const BF16: (u8, u8) = (4, 16); // kDLBfloat
const BATCH: usize = 2;
const Q_HEADS: usize = 8;
const KV_HEADS: usize = 2;
const DIM: usize = 64;
const PAGE: usize = 16; // keys a page
const PAGES: usize = 6;
const COLUMNS: usize = 3;
const LENGTHS: [i32; BATCH] = [37, 20]; // keys of each sequence, its new token's among them
const TABLE: [i32; BATCH * COLUMNS] = [4, 1, 3, 5, 0, 0]; // its pages in order; past a length, any number

// bfloat16 is the upper half of a float: to nearest, ties to even, and back.
fn to_bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}
fn from_bf16(half: u16) -> f64 {
    f32::from_bits((half as u32) << 16) as f64
}

// Compact. Data and shape must outlive it.
fn tensor<T>(data: &[T], (code, bits): (u8, u8), shape: &[i64]) -> DLTensor {
    assert_eq!(data.len() * size_of::<T>(), shape.iter().product::<i64>() as usize * bits as usize / 8);
    DLTensor {
        data: data.as_ptr().cast(), device: DLDevice(CPU, 0), ndim: shape.len() as i32,
        dtype: DLDataType(code, bits, 1), shape: shape.as_ptr(), strides: null(), byte_offset: 0,
    }
}

// In [-1, 1), the same at every run.
fn random(count: usize, mut seed: u32) -> Vec<u16> {
    (0..count).map(|_| {
        seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
        to_bf16((seed >> 8) as f32 / 8388608.0 - 1.0)
    }).collect()
}

fn check(status: c_int) {
    if status != 0 {
        panic!("{}", unsafe { CStr::from_ptr(gqa_last_error()) }.to_string_lossy());
    }
}

fn decode(q: &[u16], k: &[u16], v: &[u16], out: &mut [u16]) {
    let rows = [BATCH as i64, 1, Q_HEADS as i64, DIM as i64];
    let pages = [PAGES as i64, PAGE as i64, KV_HEADS as i64, DIM as i64];
    let (list, table) = ([BATCH as i64], [BATCH as i64, COLUMNS as i64]);
    let (lengths, entries) = (tensor(&LENGTHS, INT32, &list), tensor(&TABLE, INT32, &table));
    let mut written = tensor(out, BF16, &rows);
    written.data = out.as_mut_ptr().cast();
    let options = Options {
        size: size_of::<Options>(), device: b"host\0".as_ptr().cast(), cache_path: null(), cache_mode: 0, tuning: 0,
        tuning_budget: 0.0, threads: 0, nvrtc_path: null(), log: null(), log_user: null(),
    };
    let call = Call {
        size: size_of::<Call>(), scale: 0.0, causal: 1, lse: null(), stream: null(), cache_seqlens: &lengths,
        page_table: &entries, window_size: null(),
    };
    let mut handle: Handle = null_mut();
    unsafe {
        check(gqa_create(&options, &mut handle));
        check(gqa_run_ex(handle, &tensor(q, BF16, &rows), &tensor(k, BF16, &pages), &tensor(v, BF16, &pages), &written,
                         &call));
        gqa_destroy(handle);
    }
}

// Query head `head` of sequence b, in double precision.
fn expected(q: &[u16], k: &[u16], v: &[u16], b: usize, head: usize) -> Vec<f64> {
    let (mut sum, mut row) = (0.0, vec![0.0; DIM]);
    for j in 0..LENGTHS[b] as usize {
        let page = TABLE[b * COLUMNS + j / PAGE] as usize;
        let key = ((page * PAGE + j % PAGE) * KV_HEADS + head / (Q_HEADS / KV_HEADS)) * DIM;
        let query = (b * Q_HEADS + head) * DIM;
        let score: f64 = (0..DIM).map(|d| from_bf16(q[query + d]) * from_bf16(k[key + d])).sum();
        let weight = (score / (DIM as f64).sqrt()).exp();
        sum += weight;
        (0..DIM).for_each(|d| row[d] += weight * from_bf16(v[key + d]));
    }
    row.iter().map(|value| value / sum).collect()
}

fn main() {
    let (q, mut out) = (random(BATCH * Q_HEADS * DIM, 1), vec![0; BATCH * Q_HEADS * DIM]);
    let (k, v) = (random(PAGES * PAGE * KV_HEADS * DIM, 2), random(PAGES * PAGE * KV_HEADS * DIM, 3));
    decode(&q, &k, &v, &mut out);
    let mut worst = 0.0;
    for row in 0..BATCH * Q_HEADS {
        for (d, number) in expected(&q, &k, &v, row / Q_HEADS, row % Q_HEADS).iter().enumerate() {
            let off = (number - from_bf16(out[row * DIM + d])).abs();
            if off > worst || off.is_nan() {
                worst = off; // NaN stays
            }
        }
    }
    println!("Rust: gqa {}, largest error {:.5} in {} numbers", unsafe { gqa_version() }, worst, out.len());
    std::process::exit(if worst < 0.01 { 0 } else { 1 });
}
