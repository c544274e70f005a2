// Clusters of CTAs under the emulator: each instruction between two CTAs against what the PTX ISA says, whichever CTA
// runs ahead. What the emulator must refuse: cluster_errors_test.cc.
#include "jit/wgmma_text.h"
#include "tests/simt/emulator/tests/cluster_support.h"

namespace gqa::simt {
namespace {

// Barriers 0 .. 3, of so many arrivals each, shown to the cluster.
std::string begin(int first, int second = 1, int third = 1, int fourth = 1) {
  std::string text = "if (t == 0) {\n";
  int i = 0;
  for (const int arrivals : {first, second, third, fourth})
    text += "barrier_init(bars[" + std::to_string(i++) + "], " + std::to_string(arrivals) + ");\n";
  return text + "fence_barrier_init();\n}\ncluster_sync();\n";
}

TEST_F(Clusters, CtasHaveTheirRankTheirSharedMemoryAndTheirBarriers) {
  const auto kernel = kernel_of(R"(
    u16* const mine = reinterpret_cast<u16*>(memory);
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    mine[t] = block * 128 + t;
    __syncthreads();
    const u16 other = mine[127 - t];
    if (rank == 1) { __syncthreads(); mine[t] = 7; }
    named_sync(3, 128);
    out[block * 256 + t] = other;
    u32 back;
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(back) : "r"(there(shared + 64, 1)));
    const bool right = there(shared + 64, rank) == shared + 64 && there(shared, 1) - there(shared, 0) == 0x40000 &&
                       back == there(shared + 64, 0);
    out[block * 256 + 128 + t] = rank + (right ? 10 : 20);)");
  for (const Schedule& schedule : cluster_schedules()) {
    const Buffer out("out", kOut);
    const Status status = launch(*kernel, out, schedule, {4, 2, 1});
    ASSERT_TRUE(status.ok()) << status.message();
    for (int block = 0; block < 8; ++block)
      for (int t = 0; t < 128; ++t) {
        ASSERT_EQ(block * 128 + 127 - t, out.as<std::uint16_t>()[block * 256 + t]) << block;
        ASSERT_EQ(10 + block % 2, out.as<std::uint16_t>()[block * 256 + 128 + t]) << block;
      }
  }
}

// Two warps take turns, so that no warp gets far alone: as the first CTA ends, the other has not begun.
TEST_F(Clusters, OneCtaMayRunFarAheadOfTheOther) {
  const auto kernel = kernel_of(R"(
    if (t < 64)
      for (int round = 0; round < 20; ++round) {
        if (t == 0) out[2 + rank] = round;
        named_sync(1, 64);
      }
    if (t == 0) out[rank] = out[3 - rank];)");
  const auto other_as_ended = [&](std::size_t rank, const Schedule& schedule) {
    const Buffer out("out", kOut);
    EXPECT_TRUE(launch(*kernel, out, schedule).ok());
    return out.as<std::uint16_t>()[rank];
  };
  EXPECT_EQ(0xffff, other_as_ended(0, {Order::kAscending, Copies::kLate, 1}));
  EXPECT_EQ(0xffff, other_as_ended(1, {Order::kDescending, Copies::kEarly, 1}));
  EXPECT_EQ(19, other_as_ended(1, {Order::kAscending, Copies::kLate, 1}));
}

// What each thread wrote before it arrived, its partner in the other CTA reads after it has waited.
TEST_F(Clusters, TheirBarrierOrdersAllThreadsThroughItsPhases) {
  for (const char* form : {"", "_aligned"}) {
    const auto kernel = kernel_of(std::string("for (int round = 0; round < 5; ++round) {\n") +
                                  "out[round * 256 + rank * 128 + t] = round * 300 + rank * 128 + t;\ncluster_arrive" +
                                  form + "();\nif (t < 32) named_sync(1, 32);\ncluster_wait" + form + R"(();
      const int partner = (1 - rank) * 128 + 127 - t;
      if (out[round * 256 + partner] != round * 300 + partner) __trap();
    })");
    for (const Schedule& schedule : cluster_schedules()) {
      const Buffer out("out", kOut);
      const Status status = launch(*kernel, out, schedule);
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }
}

// CTA 1 arrives only after CTA 0 has both arrived at the cluster's barrier and reached over to it.
TEST_F(Clusters, ArrivingAtTheirBarrierDoesNotWait) {
  const auto kernel = kernel_of(begin(128) + R"(
    if (rank == 0) { cluster_arrive(); arrive_there(bar(0), 1); out[t] = t; cluster_wait(); }
    if (rank == 1) { barrier_wait(bar(0), 0); cluster_arrive(); cluster_wait(); if (out[t] != t) __trap(); })");
  for (const Schedule& schedule : cluster_schedules()) {
    const Buffer out("out", kOut);
    const Status status = launch(*kernel, out, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
  }
}

// Some end before they arrive, some after they have and before they wait, some between two phases.
TEST_F(Clusters, EndedThreadsAreNotWaitedForAtTheirBarrier) {
  const auto kernel = kernel_of(R"(
    if (rank == 1 && t % 4 == 3) return;
    cluster_arrive();
    if (rank == 1 && t % 4 == 2) return;
    cluster_wait();
    if (rank == 0 && t % 4 == 1) return;
    for (int round = 0; round < 3; ++round) { cluster_arrive(); cluster_wait(); }
    out[rank * 128 + t] = 1;)");
  for (const Schedule& schedule : cluster_schedules()) {
    const Buffer out("out", kOut);
    const Status status = launch(*kernel, out, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int i = 0; i < 256; ++i) ASSERT_EQ(i < 128 ? i % 4 != 1 : i % 4 < 2, out.as<std::uint16_t>()[i] == 1) << i;
  }
}

// Two slots. CTA 0's first thread fills them in both CTAs; the other three warps of both empty them, and say so at CTA
// 0; each CTA's first thread announces the bytes at its own barrier, which may be after they have come.
TEST_F(Clusters, AMulticastFeedsBothAndBothGiveTheSlotBack) {
  const auto kernel = kernel_of(begin(1, 1, 6, 6) + R"(
    if (t < 32) {
      for (int i = 0; i < 8 && t == 0; ++i) {
        const int slot = i % 2;
        if (rank == 0 && i > 1) barrier_wait(bar(2 + slot), (i / 2 - 1) & 1);
        if (rank == 0) load_all(shared + slot * 1024, map, bar(slot), 0, 4, i, 3);
        if (rank == 1 && i > 1) barrier_wait(bar(slot), (i / 2 - 1) & 1);
        barrier_arrive_expect(bar(slot), 1024);
      }
    } else {
      for (int i = 0; i < 8; ++i) {
        barrier_wait(bar(i % 2), i / 2 & 1);
        for (int e = t - 32; e < 512; e += 96) out[(rank * 8 + i) * 512 + e] = element(i % 2, e);
        __syncwarp();
        arrive_once_at_0(bar(2 + i % 2));
      }
    }
    cluster_sync();)");
  for (const Schedule& schedule : cluster_schedules()) {
    const Buffer out("out", kOut);
    const Status status = launch(*kernel, out, schedule, {4, 1, 1});
    ASSERT_TRUE(status.ok()) << status.message();
    for (int rank = 0; rank < 2; ++rank)
      for (int i = 0; i < 8; ++i)
        for (int e = 0; e < 512; ++e)
          ASSERT_EQ(i * 1024 + 256 + e, out.as<std::uint16_t>()[(rank * 8 + i) * 512 + e]) << rank << " " << i;
  }
}

// Each CTA loads half of a box for both, as kernels do that share the work; a mask of one CTA reaches that one alone.
TEST_F(Clusters, AMulticastReachesTheCtasOfItsMaskAtTheSamePlace) {
  const auto kernel = kernel_of(begin(1, 1) + R"(
    for (int i = t; i < 4096; i += 128) reinterpret_cast<u16*>(memory)[i] = 0x7777;
    fence_async();
    cluster_sync();
    if (t == 0) {
      barrier_arrive_expect(bar(0), 2048);
      load_all(shared + rank * 1024, map, bar(0), 0, rank * 8, 2, 3);
      if (rank == 0) load_all(shared + 2048, map, bar(1), 0, 0, 5, 2);
      if (rank == 1) barrier_arrive_expect(bar(1), 1024);
    }
    barrier_wait(bar(0), 0);
    if (rank == 1) barrier_wait(bar(1), 0);
    for (int i = t; i < 1536; i += 128) out[rank * 1536 + i] = element(i / 512, i % 512);)");
  for (const Schedule& schedule : cluster_schedules()) {
    const Buffer out("out", kOut);
    const Status status = launch(*kernel, out, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int rank = 0; rank < 2; ++rank)
      for (int i = 0; i < 1536; ++i) {
        const int expected = i < 1024 ? 2048 + i : rank == 1 ? 5120 + i - 1024 : 0x7777;
        ASSERT_EQ(expected, out.as<std::uint16_t>()[rank * 1536 + i]) << rank << " " << i;
      }
  }
}

// CTA 1 reads when CTA 0 has the box, and again when it has it itself: the first must be too early in some schedule and
// in time in another.
TEST_F(Clusters, AMulticastLandsApartInEachCta) {
  const auto kernel = kernel_of(begin(1, 1) + R"(
    if (t == 0) {
      barrier_arrive_expect(bar(0), 1024);
      if (rank == 0) { load_all(shared, map, bar(0), 0, 0, 1, 3); barrier_wait(bar(0), 0); arrive_there(bar(1), 1); }
      if (rank == 1) {
        barrier_wait(bar(1), 0);
        out[0] = element(0, 5);
        barrier_wait(bar(0), 0);
        out[1] = element(0, 5);
      }
    }
    cluster_sync();)");
  int early = 0, late = 0;
  for (const Schedule& schedule : cluster_schedules()) {
    const Buffer out("out", kOut);
    const Status status = launch(*kernel, out, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    early += out.as<std::uint16_t>()[0] == 0xffff;
    late += out.as<std::uint16_t>()[0] == 1024 + 5;
    ASSERT_EQ(1024 + 5, out.as<std::uint16_t>()[1]);
  }
  EXPECT_LT(0, early);
  EXPECT_LT(0, late);
}

// CTA 1 looks before it waits and after: what it finds first is there in some schedule and not in another.
TEST_F(Clusters, AWordComesWithItsBytes) {
  const auto kernel = kernel_of(begin(1, 1, 1, 1) + R"(
    const auto words = reinterpret_cast<volatile u32*>(memory);
    if (t < 4) words[t] = 7;
    cluster_sync();
    for (u32 i = 0; i < 4 && t == 0; ++i) {
      if (rank == 0) store_there(there(shared + 4 * i, 1), 100 + i, there(bar(i), 1));
      if (rank == 1) {
        out[i] = words[i];
        barrier_arrive_expect(bar(i), 4);
        barrier_wait(bar(i), 0);
        out[4 + i] = words[i];
      }
    }
    cluster_sync();
    if (rank == 0 && t < 4) out[8 + t] = words[t];)");
  int early = 0, late = 0;
  for (const Schedule& schedule : cluster_schedules()) {
    const Buffer out("out", kOut);
    const Status status = launch(*kernel, out, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int i = 0; i < 4; ++i) {
      early += out.as<std::uint16_t>()[i] == 100 + i;
      late += out.as<std::uint16_t>()[i] == 7;
      ASSERT_EQ(100 + i, out.as<std::uint16_t>()[4 + i]);
      ASSERT_EQ(7, out.as<std::uint16_t>()[8 + i]);
    }
  }
  EXPECT_LT(0, early);
  EXPECT_LT(0, late);
}

// The bytes come first, where copies are early; the phase waits for the arrival that announces them.
TEST_F(Clusters, BytesMayComeBeforeTheyAreAnnounced) {
  const auto kernel = kernel_of(begin(1, 1) + R"(
    if (rank == 0 && t == 0) {
      barrier_arrive_expect(bar(0), 1024);
      load_all(shared, map, bar(0), 0, 0, 1, 3);
      arrive_there(bar(1), 1);
      barrier_wait(bar(0), 0);
    }
    if (rank == 1 && t == 32) { barrier_wait(bar(0), 0); if (out[0] != 1) __trap(); out[1] = element(0, 5); }
    if (rank == 1 && t == 0) {
      barrier_wait(bar(1), 0);
      named_sync(1, 32);
      out[0] = 1;
      barrier_arrive_expect(bar(0), 1024);
    } else if (rank == 1 && t < 32) {
      named_sync(1, 32);
    }
    cluster_arrive();
    cluster_wait();)");
  for (const Schedule& schedule : cluster_schedules()) {
    const Buffer out("out", kOut);
    const Status status = launch(*kernel, out, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(1024 + 5, out.as<std::uint16_t>()[1]);
  }
}

// CTA 1 announces the bytes that CTA 0 loads for itself; the register holds a mapped address.
TEST_F(Clusters, BytesMayBeAnnouncedByAnotherCta) {
  const auto kernel = kernel_of(begin(2) + R"(
    if (rank == 1 && t == 0) { out[0] = 1; expect_there(bar(0), 0, 1024); }
    if (rank == 0 && t == 0) { load_box(shared, map, bar(0), 0, 0, 3, 0); barrier_arrive(bar(0)); }
    if (rank == 0 && t >= 32) {
      barrier_wait(bar(0), 0);
      if (out[0] != 1) __trap();
      out[t] = element(0, t);
    }
    cluster_arrive();
    cluster_wait();)");
  for (const Schedule& schedule : cluster_schedules()) {
    const Buffer out("out", kOut);
    const Status status = launch(*kernel, out, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int t = 32; t < 128; ++t) ASSERT_EQ(3072 + t, out.as<std::uint16_t>()[t]);
  }
}

// A descriptor names no CTA: it is the thread's own.
TEST_F(Clusters, ProductsReadTheSharedMemoryOfTheirOwnCta) {
  const auto kernel = kernel_of(R"(
    const u16 one = 0x3c00, two = 0x4000;  // as float16
    for (int i = t; i < 64 * 64; i += 128) reinterpret_cast<u16*>(memory)[i] = rank == 0 ? one : two;
    for (int i = t; i < 8 * 64; i += 128) reinterpret_cast<u16*>(memory + 8192)[i] = one;
    fence_async();
    cluster_sync();
    float d[1][4] = {};
    wgmma_fence();
    P::multiply(d, operand(shared, 0), operand(shared + 8192, 0), false);
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < 4; ++i) out[rank * 512 + t * 4 + i] = static_cast<u16>(d[0][i]);)",
                                shared_product("P", ElementType::kF16, 8, BLayout::kColumns));
  for (const Schedule& schedule : cluster_schedules()) {
    const Buffer out("out", kOut);
    const Status status = launch(*kernel, out, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int i = 0; i < 1024; ++i) ASSERT_EQ(i < 512 ? 16 : 32, out.as<std::uint16_t>()[i]) << i;
  }
}

}  // namespace
}  // namespace gqa::simt
