// What the emulator must refuse of a cluster of CTAs, each fault planted in a kernel of a few lines, with the words
// that name it; beside some, the same without the fault.
#include "jit/wgmma_text.h"
#include "tests/simt/emulator/tests/cluster_support.h"

namespace gqa::simt {
namespace {

constexpr Schedule kFirstAhead{Order::kAscending, Copies::kLate, 1}, kSecondAhead{Order::kDescending, Copies::kLate, 1},
    kRandom{Order::kRandom, Copies::kLate, 1};
const char* const kBegin =
    "if (t == 0) { barrier_init(bars[0], 1); barrier_init(bars[1], 1); fence_barrier_init(); }\ncluster_sync();\n";

class ClusterErrors : public Clusters {
 protected:
  std::string failure(const std::string& body, const Schedule& schedule = kFirstAhead, const std::string& before = "") {
    const auto kernel = kernel_of(body, before);
    if (kernel == nullptr) return "no kernel";
    const Buffer out("out", kOut);
    return launch(*kernel, out, schedule).message();
  }
  ::testing::AssertionResult fails(const char* words, const std::string& body, const Schedule& schedule = kFirstAhead,
                                   const std::string& before = "") {
    const std::string message = failure(body, schedule, before);
    if (message.find(words) != message.npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "of\n" << body << "\nit says: " << message;
  }
};

TEST_F(ClusterErrors, LaunchesThatNoGpuTakes) {
  const auto kernel = kernel_of("");
  const Buffer out("out", kOut);
  const auto says = [&](const char* words, Index3 grid, unsigned threads, unsigned cluster) {
    const std::string message = launch(*kernel, out, {}, grid, threads, cluster).message();
    EXPECT_NE(message.npos, message.find(words)) << message;
  };
  says("no multiple", {3, 2, 1}, 128, 2);
  says("no whole warpgroups", {2, 1, 1}, 96, 2);
  says("1 to 16 expected", {2, 1, 1}, 128, 0);
  says("1 to 16 expected", {32, 1, 1}, 128, 32);
  EXPECT_TRUE(launch(*kernel, out, {}, {3, 1, 1}, 96, 1).ok());
  EXPECT_TRUE(launch(*kernel, out, {}, {3, 1, 1}, 128, 3).ok());
}

TEST_F(ClusterErrors, RanksAndMasksOutsideTheCluster) {
  EXPECT_TRUE(fails("mapa to CTA 2 in a cluster of 2", "out[t] = there(shared, 2);"));
  EXPECT_TRUE(fails("is no shared address", "out[t] = there(16, 1);"));
  EXPECT_TRUE(fails("is no shared address", "out[t] = there(shared + 0x80000, 1);"));
  EXPECT_TRUE(fails(
      "of CTA 2 in a cluster of 2",
      kBegin + std::string("asm volatile(\"mbarrier.arrive.shared::cluster.b64 _, [%0];\" ::\"r\"(bar(0) + 0x80000 - "
                           "rank * 0x40000));")));
  for (const char* mask : {"0", "4", "7"})
    EXPECT_TRUE(fails("in a cluster of 2",
                      kBegin + std::string("if (t == 0) load_all(shared, map, bar(0), 0, 0, 0, ") + mask + ");"));
}

// One ends at once, and the other reaches over to it. Arrivals are as late as copies; a load is, too, if not issued
// before.
TEST_F(ClusterErrors, UsesOfCtasThatHaveEnded) {
  for (const std::string ended : {"0", "1"}) {
    const Schedule& ahead = ended == "0" ? kFirstAhead : kSecondAhead;
    const std::string words = "CTA " + ended + " of the cluster has ended";
    const std::string begin = kBegin + ("if (rank == " + ended + ") return;\n__syncthreads();\nif (t == 0) ");
    for (const Schedule& late : {kFirstAhead, kSecondAhead, kRandom}) {
      EXPECT_TRUE(fails(words.c_str(), begin + "arrive_there(bar(0), " + ended + ");", late));
      EXPECT_TRUE(fails(words.c_str(), begin + "expect_there(bar(0), " + ended + ", 16);", late));
    }
    EXPECT_TRUE(fails(words.c_str(), begin + "load_all(shared, map, bar(0), 0, 0, 0, 3);", ahead));
    EXPECT_EQ("", failure(begin + "out[0] = there(shared, " + ended + ");", ahead));
  }
}

// The consumers' last arrivals come when CTA 0's threads have nothing more to wait for.
TEST_F(ClusterErrors, ALastArrivalAtACtaThatHasEnded) {
  const std::string ring = kBegin + std::string(R"(
    if (t == 0) {
      barrier_arrive_expect(bar(0), 1024);
      if (rank == 0) load_all(shared, map, bar(0), 0, 0, 0, 3);
    }
    barrier_wait(bar(0), 0);
    out[t] = element(0, t);
    if (rank == 1 && t == 0) arrive_there(bar(1), 0);)");
  for (const Schedule& late : {kFirstAhead, kSecondAhead})
    EXPECT_TRUE(fails("CTA 0 of the cluster has ended", ring, late));
  EXPECT_EQ("", failure(ring + "cluster_sync();"));
  EXPECT_EQ("", failure(ring + "if (rank == 0) barrier_wait(bar(1), 0);"));
}

TEST_F(ClusterErrors, ALoadThatLandsInACtaThatHasEnded) {
  const std::string load =
      kBegin + std::string(
                   "if (t == 0) { barrier_arrive_expect(bar(0), 1024);\nif (rank == 0) load_all(shared, map, "
                   "bar(0), 0, 0, 0, 3); }\ncluster_sync();\n");
  EXPECT_TRUE(fails("CTA 1 of the cluster ended before its load of", load + "if (rank == 0) barrier_wait(bar(0), 0);"));
  EXPECT_TRUE(fails("CTA 0 of the cluster ended before its load of", load + "if (rank == 1) barrier_wait(bar(0), 0);"));
  EXPECT_EQ("", failure(load + "barrier_wait(bar(0), 0);"));
}

TEST_F(ClusterErrors, BarriersOfAnotherCtaThatAreNotKnownToBeThere) {
  const std::string init = "if (t == 0) { barrier_init(bars[0], 1); if (rank == 0) fence_barrier_init(); }\n";
  const std::string load = "if (rank == 0 && t == 0) load_all(shared, map, bar(0), 0, 0, 0, 2);\n";
  for (const Schedule& schedule : {kFirstAhead, kSecondAhead})
    EXPECT_TRUE(fails("an mbarrier of CTA 1 that no fence.mbarrier_init", init + "cluster_sync();\n" + load, schedule));
  EXPECT_TRUE(fails("no mbarrier was initialised", "cluster_sync();\nif (t == 0) arrive_there(bar(3), 1 - rank);"));
  // Whoever runs ahead.
  const std::string both = "if (t == 0) { barrier_init(bars[0], 1); fence_barrier_init(); }\n";
  const std::string arrive = "if (rank == 0 && t == 0) arrive_there(bar(0), 1);\n", end = "cluster_sync();\n";
  EXPECT_TRUE(fails("no mbarrier was initialised", both + arrive + end, {Order::kAscending, Copies::kEarly, 1}));
  EXPECT_TRUE(fails("no barrier.cluster stands between", both + arrive + end, kFirstAhead));
  EXPECT_TRUE(fails("no barrier.cluster stands between", both + arrive + end, kSecondAhead));
  EXPECT_TRUE(fails("no barrier.cluster stands between", end + both + "__syncthreads();\n" + load + end, kSecondAhead));
  EXPECT_TRUE(fails("no barrier.cluster stands between",
                    "cluster_arrive();\n" + both + "cluster_wait();\n" + arrive + end, kSecondAhead));
  EXPECT_EQ("", failure(both + "cluster_arrive();\ncluster_wait();\n" + arrive + end, kSecondAhead));
}

TEST_F(ClusterErrors, AnotherCtasSharedMemoryByInstructionsThatReachTheirOwn) {
  const std::string one = kBegin + std::string("if (t == 0 && rank == 0) ");
  EXPECT_TRUE(fails("reaches its own alone", one + "barrier_arrive(there(bar(0), 1));"));
  EXPECT_TRUE(fails("reaches its own alone", one + "barrier_arrive_expect(there(bar(0), 1), 16);"));
  EXPECT_TRUE(fails("reaches its own alone", one + "barrier_wait(there(bar(0), 1), 1);"));
  EXPECT_TRUE(
      fails("reaches its own alone",
            one + "asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" ::\"r\"(there(bar(3), 1)), \"r\"(1));"));
  EXPECT_TRUE(fails("reaches its own alone", "stmatrix(there(shared, 1) + t % 32 * 16, 0, 0, 0, 0);"));
  EXPECT_TRUE(fails("which is no multicast", one + "load_box(there(shared, 1), map, bar(0), 0, 0, 0, 0);"));
  EXPECT_TRUE(fails("which is no multicast", one + "load_box(shared, map, there(bar(0), 1), 0, 0, 0, 0);"));
  EXPECT_TRUE(
      fails("which is no multicast",
            one + "asm volatile(\"cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %2, %2, %2}], "
                  "[%1];\" ::\"l\"(&map), \"r\"(there(shared, 1)), \"r\"(0));"));
  EXPECT_TRUE(fails("past the end of shared memory of CTA 1", "if (rank == 1) memory[65536 + 64] = 1;"));
}

TEST_F(ClusterErrors, WordsThatGoAstray) {
  const std::string one = kBegin + std::string("if (t == 0 && rank == 0) "), end = "cluster_sync();\n";
  EXPECT_TRUE(fails("st.async to CTA 1 with an mbarrier of CTA 0", one + "store_there(there(shared, 1), 1, bar(0));"));
  EXPECT_TRUE(fails("not aligned to 4 bytes", one + "store_there(there(shared + 2, 1), 1, there(bar(0), 1));"));
  EXPECT_TRUE(fails("no mbarrier was initialised",
                    "if (t == 0) store_there(there(shared, 1 - rank), 1, there(bar(3), 1 - rank));"));
  const std::string ended = kBegin + std::string("if (rank == 1) return;\n__syncthreads();\n");
  EXPECT_TRUE(fails("CTA 1 of the cluster has ended",
                    ended + "if (t == 0) store_there(there(shared, 1), 1, there(bar(0), 1));", kSecondAhead));
  EXPECT_EQ("", failure(one + "store_there(there(shared, 1), 1, there(bar(0), 1));\n" + end));
}

TEST_F(ClusterErrors, MisusedBarriersOfTheCluster) {
  EXPECT_TRUE(fails("again before barrier.cluster.wait", "cluster_arrive(); cluster_arrive(); cluster_wait();"));
  EXPECT_TRUE(fails("without a barrier.cluster.arrive", "cluster_wait();"));
  EXPECT_TRUE(fails("without a barrier.cluster.arrive", "cluster_sync(); cluster_wait_aligned();"));
  EXPECT_TRUE(fails("divergent warp", "if (t < 16) cluster_arrive_aligned(); else cluster_wait_aligned();"));
  EXPECT_TRUE(fails("wait in barrier.cluster.arrive.aligned", "if (t < 16) cluster_arrive_aligned();"));
  EXPECT_TRUE(
      fails("with a result", kBegin + std::string("u32 token; asm volatile(\"mbarrier.arrive.shared::cluster.b64 %0, "
                                                  "[%1];\" : \"=r\"(token) : \"r\"(bar(0)));")));
}

TEST_F(ClusterErrors, DeadlocksNameWhatEachCtaWaitsFor) {
  const std::string message = failure(kBegin + std::string("if (rank == 0 && t < 32) return;\nif (rank == 0) "
                                                           "barrier_wait(bar(0), 0);\nif (t < 64) cluster_sync();\n"
                                                           "barrier_wait(bar(1), 0);"));
  EXPECT_NE(message.npos, message.find("deadlock in the cluster of block (0, 0, 0): CTA 0: 32 threads (the first: 0) "
                                       "ended; 96 threads (the first: 32) wait in mbarrier.try_wait"))
      << message;
  EXPECT_NE(message.npos, message.find("; CTA 1: 64 threads (the first: 0) wait in barrier.cluster.wait")) << message;
}

// Each at its own CTA: what the other did at the same place is no part of it.
TEST_F(ClusterErrors, RacesAndBarriersAreEachCtas) {
  const std::string write = "reinterpret_cast<u16*>(memory)[t] = t;\n";
  const std::string read = "out[t] = reinterpret_cast<u16*>(memory)[127 - t];\n";
  EXPECT_EQ("", failure(write + "__syncthreads();\n" + read));
  EXPECT_TRUE(fails("block (1, 0, 0) thread (", write + "if (rank == 0) __syncthreads();\n" + read));
  EXPECT_TRUE(fails("race: bytes", write + "if (rank == 0) __syncthreads();\n" + read));
  EXPECT_TRUE(fails("race: bytes", write + "if (rank == 1) __syncthreads();\n" + read, kSecondAhead));
  EXPECT_EQ("", failure(write + "cluster_arrive();\ncluster_wait();\n" + read));
  EXPECT_TRUE(fails("race: bytes", write + "cluster_arrive_relaxed();\ncluster_wait();\n" + read));
  EXPECT_TRUE(fails("CTA 1 of the cluster ended with 32 of 128 threads at barrier 4",
                    "if (rank == 0 || t < 32) asm volatile(\"barrier.arrive %0, %1;\" ::\"r\"(4), \"r\"(128));"));
}

TEST_F(ClusterErrors, LoadsOverWhatAnotherCtaStillUses) {
  const std::string text = shared_product("P", ElementType::kF16, 8, BLayout::kColumns);
  const std::string product = kBegin + std::string(R"(
    float d[1][4] = {};
    wgmma_fence();
    P::multiply(d, operand(shared + 8192, 0), operand(shared, 0), false);
    wgmma_commit();)");
  const std::string load = R"(
    if (t == 0) {
      barrier_arrive_expect(bar(0), 1024);
      if (rank == 0) load_all(shared, map, bar(0), 0, 0, 0, 3);
    }
    barrier_wait(bar(0), 0);
    cluster_sync();)";
  const std::string wait = "wgmma_wait<0>();\n", sync = "cluster_sync();\n";
  EXPECT_TRUE(
      fails("still reads from there", product + "if (rank == 0) " + wait + sync + load + wait, kFirstAhead, text));
  EXPECT_EQ("", failure(product + wait + sync + load, kFirstAhead, text));
  EXPECT_TRUE(
      fails("has not landed there",
            kBegin + std::string("if (t == 0) load_all(shared, map, bar(rank), 0, 0, 0, 3);\ncluster_sync();")));
  EXPECT_TRUE(
      fails("bytes, which it cannot", kBegin + std::string("if (t == 0) expect_there(bar(0), 1 - rank, 1 << 20);")));
}

}  // namespace
}  // namespace gqa::simt
