// problem_test.cc: the problem: text, parse, check, hash, buckets, flops. Deterministic, no files, one thread.
#include "search/problem/problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "search/problem/mask.h"
#include "search/problem/signature.h"

namespace gqa {
namespace {

Problem read(std::string_view text) {
  Problem problem;
  const Status status = parse(text, &problem);
  EXPECT_TRUE(status.ok()) << text << ": " << status.message();
  return problem;
}

std::string problem_error(std::string_view text) {
  Problem problem;
  const Status status = parse(text, &problem);
  EXPECT_FALSE(status.ok()) << text;
  EXPECT_EQ(problem, Problem()) << "a failed parse must leave the problem alone";
  return status.message();
}

// A winner's key holds this text: a field that is added later must not be in it at its default, or every cache is void.
TEST(ProblemText, HoldsNoFieldAtItsDefault) {
  const std::string least = "b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,dtype=bf16";
  EXPECT_EQ(to_text(Signature(read("hq=32,hk=8,sq=4096,d=128")).problem()), least);
  EXPECT_EQ(read(least), read("hq=32,hk=8,sq=4096,d=128"));
  for (const char* more : {",dv=64", ",causal", ",align=2", ",notma", ",ktrans", ",page=16", ",left=9", ",right=9",
                           ",softcap", ",sink", ",lens", ",packk", ",packq", ",lse"})
    EXPECT_EQ(to_text(Signature(read(least + more)).problem()).size(), least.size() + std::string(more).size()) << more;
}

Problem random_problem(std::mt19937& random) {
  constexpr int kDims[] = {16, 32, 64, 80, 96, 112, 128, 192, 256};
  const auto any = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  Problem p;
  p.set_types(kElementTypes[static_cast<std::size_t>(any(0, 2))]);
  p.align = any(0, 1) ? 16 : 2;
  p.tma = p.align == 16 && any(0, 1);
  p.head_dim = kDims[any(0, 8)];
  p.head_dim_v = any(0, 2) ? p.head_dim : kDims[any(0, 8)];
  p.batch = any(1, 300);
  p.kv_heads = any(1, 16);
  p.q_heads = p.kv_heads * any(1, 9);
  p.q_len = any(0, 3) ? any(1, 100000) : 1;
  p.kv_len = any(1, 100000);
  p.keys = any(0, 1) == 1 ? KeyLayout::kTransposed : KeyLayout::kDense;
  p.lse = any(0, 1) == 1;
  if (p.keys == KeyLayout::kTransposed) {
    set_window(-1, any(-1, 0), &p);
    return p;
  }
  p.kv_lengths = static_cast<Lengths>(any(0, 2));
  p.q_lengths = any(0, 1) == 1 ? Lengths::kPacked : Lengths::kOne;
  if (p.kv_lengths != Lengths::kPacked && any(0, 1) == 1) {
    p.keys = KeyLayout::kPaged;
    p.page = any(1, 300);
  }
  set_window(any(-1, 500), any(-1, 1), &p);
  return p;
}

TEST(Problem, TextLeavesOutDefaults) {
  EXPECT_EQ(to_text(read("b=1,hq=32,hk=8,sq=4096,sk=4096,d=128")), "b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,dtype=bf16");
  EXPECT_EQ(to_text(read("causal,align=2,dtype=f16,dv=128,d=192,sk=9,sq=5,hk=3,hq=6,b=2")),
            "b=2,hq=6,hk=3,sq=5,sk=9,d=192,dv=128,dtype=f16,causal,align=2");
}

TEST(Problem, DefaultsAndSynonyms) {
  const Problem p = read("hq=4,sq=7,d=64");
  EXPECT_EQ(p.batch, 1);
  EXPECT_EQ(p.kv_heads, 4);
  EXPECT_EQ(p.kv_len, 7);
  EXPECT_EQ(p.head_dim_v, 64);
  EXPECT_EQ(p.q_type, ElementType::kBF16);
  EXPECT_FALSE(p.causal());
  EXPECT_EQ(p.align, 16);
  EXPECT_EQ(read("hq=4,sq=7,d=64,causal=0,dtype=bfloat16"), p);
  EXPECT_EQ(read(" hq = 4, sq=7 ,d=64"), p);
  EXPECT_EQ(read("hq=4,sq=7,d=64,causal=1"), read("hq=4,sq=7,d=64,causal"));
  EXPECT_EQ(read("hq=4,sq=7,d=64,dtype=float16"), read("hq=4,sq=7,d=64,dtype=fp16"));
  EXPECT_EQ(read("hq=4,sq=7,d=64,dtype=float32"), read("hq=4,sq=7,d=64,dtype=fp32"));
  EXPECT_EQ(to_text(read("hq=4,sq=7,d=16,dtype=fp32")), "b=1,hq=4,hk=4,sq=7,sk=7,d=16,dtype=f32");
}

TEST(Problem, TextRoundTrips) {
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    const Problem p = random_problem(random);
    ASSERT_TRUE(check(p).ok()) << to_text(p);
    Problem back;
    ASSERT_TRUE(parse(to_text(p), &back).ok()) << to_text(p);
    ASSERT_EQ(back, p) << to_text(p);
  }
}

// A flag, false unless the text has its key.
template <typename Flag>
void expect_a_problem_of_its_own(const std::string& key, Flag flag) {
  const std::string text = "hq=4,sq=7,d=64";
  const Problem plain = read(text), with = read(text + "," + key);
  EXPECT_FALSE(std::invoke(flag, plain));
  EXPECT_TRUE(std::invoke(flag, with));
  EXPECT_NE(plain, with);
  EXPECT_NE(hash(plain), hash(with));
  EXPECT_TRUE(std::invoke(flag, Signature(with).problem()));
  EXPECT_FALSE(std::invoke(flag, Signature(plain).problem()));
  EXPECT_EQ(to_text(plain), "b=1,hq=4,hk=4,sq=7,sk=7,d=64,dtype=bf16");
  EXPECT_EQ(to_text(with), "b=1,hq=4,hk=4,sq=7,sk=7,d=64,dtype=bf16," + key);
  EXPECT_EQ(read(text + "," + key + "=1"), with);
  EXPECT_EQ(read(text + "," + key + "=0"), plain);
  EXPECT_EQ(problem_error(text + "," + key + "=2"),
            key + "='2': expected '" + key + "', " + key + "=0 or " + key + "=1");
}

TEST(Problem, TransposedKeysAreAProblemOfTheirOwn) { expect_a_problem_of_its_own("ktrans", &Problem::keys_transposed); }

TEST(Problem, LengthsOfTheirOwnAreAProblemOfTheirOwn) {
  expect_a_problem_of_its_own("lens", &Problem::lengths_differ);
  expect_a_problem_of_its_own("packq", &Problem::q_packed);
  expect_a_problem_of_its_own("packk", &Problem::k_packed);
  EXPECT_EQ(problem_error("hq=4,sq=7,d=64,lens,packk"),
            "lens and packk: expected one of them, since packed keys have lengths");
  EXPECT_EQ(problem_error("hq=4,sq=7,d=64,page=16,packk"),
            "keys are packed and lie in pages, expected one of them: pages have a table of their own");
}

TEST(Problem, TransposedKeysHaveNoWindowAndNoLengths) {
  for (const char* more : {"left=3", "lens", "packq"})
    EXPECT_EQ(problem_error("hq=4,sq=7,d=64,ktrans," + std::string(more)),
              "keys are given as (head_dim, keys) beside a window or lengths, expected neither: such keys come from "
              "graphs");
}

TEST(Problem, OneTypeForAllTensors) {
  Problem p = read("hq=4,sq=7,d=64");
  p.kv_type = ElementType::kF16;
  EXPECT_EQ(check(p).code(), Code::kDtype);
  EXPECT_EQ(check(p).message(), "q is bf16, keys and values are f16 and out is bf16, expected one type for all");
}

TEST(Problem, APageIsPartOfIt) {
  const Problem p = read("b=3,hq=4,sq=1,sk=4096,d=64,page=16,lens");
  EXPECT_TRUE(p.paged());
  EXPECT_EQ(p.page, 16);
  EXPECT_EQ(to_text(p), "b=3,hq=4,hk=4,sq=1,sk=4096,d=64,dtype=bf16,page=16,lens");
  EXPECT_NE(hash(p), hash(read("b=3,hq=4,sq=1,sk=4096,d=64,page=32,lens")));
  EXPECT_NE(Signature(p).problem(), Signature(read("b=3,hq=4,sq=1,sk=4096,d=64,page=32,lens")).problem());
  EXPECT_EQ(problem_error("hq=4,sq=7,d=64,page=0"), "page='0': expected a whole number from 1 to 2147483647");
  EXPECT_EQ(problem_error("hq=4,sq=7,d=64,page=4,ktrans"), "ktrans and page=4: expected one of them");
}

TEST(Problem, AWindowIsPartOfIt) {
  const std::string text = "hq=4,sq=7,sk=100,d=64", whole = "b=1,hq=4,hk=4,sq=7,sk=100,d=64,dtype=bf16";
  for (const char* window : {",left=12", ",causal,left=12", ",left=0,right=3", ",right=3"}) {
    const Problem p = read(text + window);
    EXPECT_TRUE(p.windowed());
    EXPECT_EQ(to_text(p), whole + window);
    EXPECT_EQ(Signature(p).problem().window_left, p.window_left);
    EXPECT_NE(hash(p), hash(read(text)));
  }
  EXPECT_EQ(read(text + ",right=0"), read(text + ",causal"));
  EXPECT_NE(read(text + ",left=12"), read(text + ",left=13"));
  // One query stands beside the last key: nothing is after its own.
  EXPECT_EQ(Signature(read("hq=4,sq=1,sk=100,d=64,left=5,right=3")).problem(),
            Signature(read("hq=4,sq=1,sk=100,d=64,left=5,causal")).problem());
  Problem p = read(text);
  p.mask = Mask::kWindow;
  EXPECT_EQ(check(p).message(), "the window is (-1, -1), expected numbers of keys, or -1 for all on one side at most");
  set_window(-1, 3, &p);
  p.window_left = -2;
  EXPECT_EQ(check(p).message(), "the window is (-2, 3), expected numbers of keys, or -1 for all on one side at most");
}

TEST(Problem, LogSumExpIsAProblemOfItsOwn) {
  expect_a_problem_of_its_own("lse", &Problem::lse);
  // Last, so that what was written before there was such a key reads as before: without.
  EXPECT_EQ(to_text(read("lse,hq=4,sq=7,d=64,causal,notma,ktrans")),
            "b=1,hq=4,hk=4,sq=7,sk=7,d=64,dtype=bf16,causal,notma,ktrans,lse");
}

TEST(Problem, NoTmaIsSaidOnceAndUnalignedRowsImplyIt) {
  const Problem plain = read("hq=4,sq=7,d=64"), without = read("hq=4,sq=7,d=64,notma");
  EXPECT_TRUE(plain.tma);
  EXPECT_FALSE(without.tma);
  EXPECT_NE(plain, without);
  EXPECT_NE(Signature(plain).problem(), Signature(without).problem());
  EXPECT_EQ(to_text(without), "b=1,hq=4,hk=4,sq=7,sk=7,d=64,dtype=bf16,notma");
  EXPECT_EQ(read("hq=4,sq=7,d=64,notma=1"), without);
  EXPECT_EQ(read("hq=4,sq=7,d=64,notma=0"), plain);
  // One form for rows that are not aligned, however they are described.
  const Problem unaligned = read("hq=4,sq=7,d=64,align=2");
  EXPECT_FALSE(unaligned.tma);
  EXPECT_EQ(read("hq=4,sq=7,d=64,align=2,notma=0"), unaligned);
  EXPECT_EQ(read("hq=4,sq=7,d=64,notma,align=2"), unaligned);
  EXPECT_EQ(to_text(unaligned), "b=1,hq=4,hk=4,sq=7,sk=7,d=64,dtype=bf16,align=2");
  Problem described = plain;
  described.align = 2;
  EXPECT_EQ(Signature(described).problem(), Signature(unaligned).problem());
}

TEST(Problem, ErrorsNameKeyValueAndExpectation) {
  EXPECT_EQ(problem_error(""), "an empty shape: expected something like b=1,hq=32,hk=8,sq=4096,d=128,causal");
  EXPECT_EQ(problem_error("hq=4,sq=0,d=64"), "sq='0': expected a whole number from 1 to 2147483647");
  EXPECT_EQ(problem_error("hq=-4,sq=1,d=64"), "hq='-4': expected a whole number from 1 to 2147483647");
  EXPECT_EQ(problem_error("hq=4,sq=2147483648,d=64"), "sq='2147483648': expected a whole number from 1 to 2147483647");
  EXPECT_EQ(problem_error("hq=4,sq=99999999999999999999999,d=64"),
            "sq='99999999999999999999999': expected a whole number from 1 to 2147483647");
  EXPECT_EQ(problem_error("hq=4,sq=,d=64"), "sq=(nothing): expected a whole number from 1 to 2147483647");
  EXPECT_EQ(problem_error("hq=4,sq=1k,d=64"), "sq='1k': expected a whole number from 1 to 2147483647");
  EXPECT_EQ(problem_error("hq=4,sq=1,d=64,hq=4"), "key 'hq' is given twice: expected once");
  EXPECT_EQ(problem_error("hq=4,sq=1,d=64,heads=4"),
            "unknown key 'heads': expected b, hq, hk, sq, sk, d, dv, dtype, kvdtype, outdtype, causal, left, right, "
            "ktrans, page, lens, packk, packq, softcap, scores, sink, align, notma or lse");
  EXPECT_EQ(problem_error("hq=4,sq=1,d=64,dtype=f64"), "dtype='f64': expected bf16, f16 or f32");
  EXPECT_EQ(problem_error("hq=4,sq=1,d=64,kvdtype=f8"), "kvdtype='f8': expected bf16, f16 or f32");
  EXPECT_EQ(problem_error("hq=4,sq=1,d=64,kvdtype=f16"),
            "q is bf16, keys and values are f16 and out is bf16, expected one type for all");
  EXPECT_EQ(problem_error("hq=4,sq=1,d=64,dtype=f16,outdtype=f32"),
            "q is f16, keys and values are f16 and out is f32, expected one type for all");
  EXPECT_EQ(problem_error("hq=4,sq=1,d=64,causal=yes"), "causal='yes': expected 'causal', causal=0 or causal=1");
  EXPECT_EQ(problem_error("hq=4,sq=1,d=64,align=8"), "align='8': expected 16 or 2");
  EXPECT_EQ(problem_error("hq=4,sq=1,d=64,notma=no"), "notma='no': expected 'notma', notma=0 or notma=1");
  EXPECT_EQ(problem_error("hq=4,sq,d=64"),
            "'sq' has no value: expected KEY=VALUE (only 'causal', 'ktrans', 'lens', 'packk', 'packq', 'softcap', "
            "'sink', 'notma' "
            "and 'lse' stand alone)");
  EXPECT_EQ(problem_error("hq=4,,d=64"),
            "an empty item between commas: expected KEY=VALUE, as in b=1,hq=32,hk=8,sq=4096,d=128");
  EXPECT_EQ(problem_error("hq=4,d=64"),
            "sq is missing: expected at least hq, sq and d, as in hq=32,hk=8,sq=4096,d=128");
  EXPECT_EQ(problem_error("hq=4,sq=1,d=65"), "head_dim is 65, expected one of 16, 32, 64, 80, 96, 112, 128, 192, 256");
  EXPECT_EQ(problem_error("hq=4,sq=1,d=64,dv=1"),
            "head_dim_v is 1, expected one of 16, 32, 64, 80, 96, 112, 128, 192, 256");
  EXPECT_EQ(problem_error("hq=4,hk=3,sq=1,d=64"),
            "q_heads is 4 and kv_heads is 3, expected q_heads to be a multiple of kv_heads");
}

TEST(Problem, CheckGivesDistinctCodes) {
  const Problem good = read("b=2,hq=8,hk=2,sq=16,sk=16,d=64");
  const auto code = [&](auto change) {
    Problem p = good;
    change(p);
    return check(p).code();
  };
  EXPECT_EQ(code([](Problem&) {}), Code::kOk);
  EXPECT_EQ(code([](Problem& p) { p.batch = 0; }), Code::kSize);
  EXPECT_EQ(code([](Problem& p) { p.kv_len = -1; }), Code::kSize);
  EXPECT_EQ(code([](Problem& p) { p.head_dim_v = 100; }), Code::kHeadDim);
  EXPECT_EQ(code([](Problem& p) { p.kv_heads = 3; }), Code::kHeads);
  EXPECT_EQ(code([](Problem& p) { p.align = 4; }), Code::kAlignment);
  EXPECT_EQ(code([](Problem& p) { p.q_len = 1 << 30; }), Code::kSize);                       // rows of a head group
  EXPECT_EQ(code([](Problem& p) { p.batch = 1 << 29; }), Code::kSize);                       // batch times heads
  EXPECT_EQ(code([](Problem& p) { p.kv_len = 2147483647, p.batch = 65536; }), Code::kSize);  // bytes of k
  EXPECT_EQ(code([](Problem& p) { p.batch = 100000; }), Code::kOk);
}

TEST(Problem, OverflowNamesBothSizes) {
  Problem p = read("b=2,hq=8,hk=2,sq=16,sk=16,d=64");
  p.kv_len = 2147483647;
  p.batch = 65536;
  EXPECT_EQ(check(p).message(),
            "k of batch 65536, length 2147483647, heads 2, head_dim 64 is larger than 281,474,976,710,656 bytes");
}

TEST(Problem, AProblemPassesWhenItsSignatureDoes) {
  std::mt19937 random(2);
  int seen[2] = {};
  for (int i = 0; i < 20000; ++i) {
    Problem p = random_problem(random);
    const auto any = [&] { return std::max(1, static_cast<std::int32_t>(random() >> (1 + random() % 31))); };
    p.batch = any();
    p.q_len = any();
    p.kv_len = any();
    ++seen[check(p).ok()];
    ASSERT_EQ(check(p).code(), check(Signature(p).problem()).code()) << to_text(p);
  }
  EXPECT_GT(std::min(seen[0], seen[1]), 1000);
}

TEST(Problem, BucketsArePowersOfTwoAndHalvesBetween) {
  std::set<std::int32_t> buckets;
  for (std::int32_t n = 1; n <= 100; ++n) buckets.insert(bucket(n));
  EXPECT_EQ(buckets, (std::set<std::int32_t>{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128}));
}

TEST(Problem, BucketsAreMonotoneTightAndIdempotent) {
  std::int32_t before = 0;
  for (std::int32_t n = 1; n <= 300000; ++n) {
    const std::int32_t b = bucket(n);
    ASSERT_GE(b, n);
    ASSERT_GE(b, before);
    ASSERT_LE(b, n + n / 2);  // at most half more, for n past 1
    ASSERT_EQ(bucket(b), b);
    before = b;
  }
  EXPECT_EQ(bucket(1 << 30), 1 << 30);
  EXPECT_EQ(bucket((1 << 30) + 1), 1610612736);
  EXPECT_EQ(bucket(1610612737), 2147483647);
  EXPECT_EQ(bucket(2147483647), 2147483647);
}

TEST(Problem, SignatureKeepsWhatShapesCodeAndBucketsLengths) {
  EXPECT_EQ(to_text(Signature(read("b=5,hq=14,hk=2,sq=1000,sk=3000,d=96,dv=64,dtype=f16,causal,align=2")).problem()),
            "b=6,hq=14,hk=2,sq=1024,sk=3072,d=96,dv=64,dtype=f16,causal,align=2");
  EXPECT_EQ(Signature(read("hq=1,sq=1,sk=1,d=64")).problem().kv_len, 16);
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    const Problem p = random_problem(random), s = Signature(p).problem();
    ASSERT_EQ(Signature(s).problem(), s);
    if (p.kv_len >= p.q_len) {
      ASSERT_GE(s.kv_len, s.q_len);
    }
  }
}

TEST(Problem, ADecodeThatGrowsByOneKeyFindsFewSignatures) {
  std::set<std::string> signatures;
  Problem p = read("hq=32,hk=8,sq=1,sk=4096,d=128,causal");
  for (p.kv_len = 1; p.kv_len <= 8192; ++p.kv_len) signatures.insert(to_text(Signature(p).problem()));
  EXPECT_EQ(signatures.size(), 19u);  // 16, 24, 32, 48, ..., 8192
}

TEST(Problem, ASingleQueryDropsItsCausalMask) {
  EXPECT_EQ(Signature(read("hq=8,sq=1,sk=99,d=64,causal")).problem(),
            Signature(read("hq=8,sq=1,sk=99,d=64")).problem());
  EXPECT_TRUE(Signature(read("hq=8,sq=2,sk=99,d=64,causal")).problem().causal());
}

TEST(Problem, HashIsTheSameInEveryProcess) {
  EXPECT_EQ(hash(read("b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,causal")), 5160014625827033801u);
  EXPECT_EQ(hash(read("b=2,hq=6,hk=3,sq=5,sk=9,d=192,dv=128,dtype=f16,align=2")), 14303496229420039178u);
}

TEST(Problem, HashSeesEveryField) {
  const Problem p = read("b=2,hq=8,hk=2,sq=16,sk=32,d=64,dv=128");
  std::set<std::uint64_t> hashes = {hash(p)};
  const auto changed = [&](auto change) {
    Problem other = p;
    change(other);
    EXPECT_NE(other, p);
    return hashes.insert(hash(other)).second;
  };
  EXPECT_TRUE(changed([](Problem& o) { o.set_types(ElementType::kF16); }));
  EXPECT_TRUE(changed([](Problem& o) { o.kv_type = ElementType::kF16; }));
  EXPECT_TRUE(changed([](Problem& o) { o.out_type = ElementType::kF16; }));
  EXPECT_TRUE(changed([](Problem& o) { o.keys = KeyLayout::kPaged; }));
  EXPECT_TRUE(changed([](Problem& o) { o.q_lengths = Lengths::kPacked; }));
  EXPECT_TRUE(changed([](Problem& o) { o.kv_lengths = Lengths::kPacked; }));
  EXPECT_TRUE(changed([](Problem& o) { o.mask = Mask::kCausal; }));
  EXPECT_TRUE(changed([](Problem& o) { o.align = 2; }));
  EXPECT_TRUE(changed([](Problem& o) { o.tma = false; }));
  EXPECT_TRUE(changed([](Problem& o) { o.head_dim = 96; }));
  EXPECT_TRUE(changed([](Problem& o) { o.head_dim_v = 96; }));
  EXPECT_TRUE(changed([](Problem& o) { ++o.batch; }));
  EXPECT_TRUE(changed([](Problem& o) { ++o.q_heads; }));
  EXPECT_TRUE(changed([](Problem& o) { ++o.kv_heads; }));
  EXPECT_TRUE(changed([](Problem& o) { ++o.q_len; }));
  EXPECT_TRUE(changed([](Problem& o) { ++o.kv_len; }));
}

TEST(Problem, FlopsCountUnmaskedScoresOnly) {
  for (const bool causal : {false, true}) {
    for (int q = 1; q <= 24; ++q) {
      for (int kv = 1; kv <= 24; ++kv) {
        Problem p = read("b=3,hq=4,hk=2,sq=1,sk=1,d=64,dv=128");
        p.mask = causal ? Mask::kCausal : Mask::kNone;
        p.q_len = q;
        p.kv_len = kv;
        double scores = 0;
        for (int i = 0; i < q; ++i) scores += causal ? std::clamp(i + kv - q + 1, 0, kv) : kv;
        ASSERT_EQ(flops(p), 3 * 4 * scores * 2 * (64 + 128)) << to_text(p);
      }
    }
  }
}

TEST(Problem, BytesCountEachTensorOnce) {
  EXPECT_EQ(bytes(read("b=2,hq=6,hk=3,sq=5,sk=7,d=64,dv=128")),
            2.0 * (2 * 5 * 6 * 64 + 2 * 7 * 3 * 64 + 2 * 7 * 3 * 128 + 2 * 5 * 6 * 128));
}

}  // namespace
}  // namespace gqa
