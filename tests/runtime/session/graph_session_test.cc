// graph_session_test.cc: the story of a user's graph on a device whose every answer is decided here: who searches, who
// waits, what is tried, what is remembered, what is told.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "runtime/api/graph_explain.h"
#include "runtime/session/graph_answer.h"
#include "search/graph/enumerate/enumerate.h"
#include "search/graph/enumerate/superoptimize.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/search/graph/graphs.h"

namespace gqa::test {
namespace {

// softmax(q k) v without a maximum, small: its search takes some hundredths of a second.
KernelGraph attention() { return softmax_attention(1, 32, 64, 32); }

// The same with other names, other orders of inputs, and the operators' operands where they were.
KernelGraph attention_otherwise() {
  return graph_of(
      "graph 1\n"
      "values = input f16[1,64,32]\n"
      "keys = input f16[1,32,64]\n"
      "queries = input f16[1,32,32]\n"
      "scores = matmul(queries, keys)\n"
      "weights = exp(scores)\n"
      "total = sum(weights) dim=2\n"
      "shares = div(weights, total)\n"
      "result = matmul(shares, values)\n");
}

KernelGraph activated_product() {
  return graph_of(
      "graph 1\n"
      "x = input f16[16,64]\n"
      "w = input f16[64,32]\n"
      "a = matmul(x, w)\n"
      "b = silu(a)\n");
}

class GraphSessionTest : public ::testing::Test {
 protected:
  std::unique_ptr<Session> open(Tuning tuning = Tuning::kNow, cache::Mode mode = cache::Mode::kReadWrite) {
    cache::Store::Options store;
    store.mode = mode;
    store.path = folder_.file("cache.db");
    SessionOptions options;
    options.tuning = tuning;
    options.policy = policy_;
    options.log = [this](bool warning, const std::string& message) {
      const std::lock_guard lock(mutex_);
      (warning ? warnings_ : messages_).push_back(message);
    };
    return std::make_unique<Session>(std::make_unique<FakeDevice>(&world_), cache::Store::open(store), options);
  }

  static GraphAnswer ask(Session& opened, const KernelGraph& graph) {
    GraphAnswer answer;
    GraphRequest request;
    request.graph = graph;
    const Status status = gqa::answer(opened, request, &answer);
    EXPECT_TRUE(status.ok()) << status.message();
    return answer;
  }
  static Status refusal(Session& opened, const KernelGraph& graph) {
    GraphAnswer answer;
    GraphRequest request;
    request.graph = graph;
    return gqa::answer(opened, request, &answer);
  }

  void forget_counts() { world_.compiles = world_.loads = world_.trials = world_.verifies = world_.samples = 0; }
  int work() const { return world_.compiles + world_.trials + world_.verifies + world_.samples; }

  TemporaryFolder folder_;
  FakeWorld world_;
  TunePolicy policy_ = {.budget_seconds = 60, .compile_threads = 2};  // a sanitizer's searches take long
  std::mutex mutex_;
  std::vector<std::string> warnings_, messages_;
};

nlohmann::json evidence_of(const GraphAnswer& answer) { return nlohmann::json::parse(answer.ready->winner.evidence); }

// What the program makes of the user's inputs, in the user's order of outputs.
std::vector<std::vector<double>> run_bound(const GraphAnswer& answer, const std::vector<std::vector<double>>& inputs) {
  std::vector<std::vector<double>> bound, results(answer.canonical.outputs.size());
  for (const int input : answer.canonical.inputs) bound.push_back(inputs[static_cast<std::size_t>(input)]);
  const auto made = values_of(answer.program, bound);
  for (std::size_t at = 0; at < made.size(); ++at)
    results[static_cast<std::size_t>(answer.canonical.outputs[at])] = made[at];
  return results;
}

void expect_same(const KernelGraph& graph, const GraphAnswer& answer) {
  const auto inputs = random_inputs(graph, 7);
  const auto expected = values_of(graph, inputs), found = run_bound(answer, inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t at = 0; at < found.size(); ++at) expect_near(found[at], expected[at], 1e-9);
}

// ---- searched once

TEST_F(GraphSessionTest, TheSecondQuestionIsAnsweredFromMemory) {
  const auto opened = open();
  const GraphAnswer first = ask(*opened, attention());
  EXPECT_EQ(first.origin, Origin::kTuned);
  EXPECT_GT(world_.compiles, 1);
  EXPECT_GT(world_.samples, 0);
  EXPECT_EQ(world_.trials, 1);
  expect_same(attention(), first);
  forget_counts();
  const GraphAnswer second = ask(*opened, attention());
  EXPECT_EQ(second.origin, Origin::kMemory);
  EXPECT_EQ(second.ready, first.ready);
  EXPECT_EQ(work() + world_.loads, 0);
}

TEST_F(GraphSessionTest, AnotherProcessTakesItFromTheCache) {
  const KernelGraph program = ask(*open(), attention()).program;
  forget_counts();
  const auto opened = open();
  const GraphAnswer cached = ask(*opened, attention());
  EXPECT_EQ(cached.origin, Origin::kCache);
  EXPECT_EQ(cached.program, program);
  EXPECT_EQ(work(), 0);
  EXPECT_EQ(world_.loads, 1);
  expect_same(attention(), cached);
}

TEST_F(GraphSessionTest, NamesAndOrderOfConstructionDoNotMatter) {
  ask(*open(), attention());
  forget_counts();
  const auto opened = open();
  const GraphAnswer other = ask(*opened, attention_otherwise());
  EXPECT_EQ(other.origin, Origin::kCache);
  EXPECT_EQ(work(), 0);
  expect_same(attention_otherwise(), other);
  EXPECT_EQ(opened->store().list_winners().size(), 1u);
}

TEST_F(GraphSessionTest, ShapesTypesStridesAndConfigsMatter) {
  const auto opened = open();
  ask(*opened, activated_product());
  std::string text = to_text(activated_product());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return ask(*opened, graph_of(changed)).origin;
  };
  EXPECT_EQ(with("x = input f16[16,64]", "x = input f16[24,64]"), Origin::kTuned);
  EXPECT_EQ(with("x = input f16[16,64]", "x = input f32[16,64]"), Origin::kTuned);
  EXPECT_EQ(with("x = input f16[16,64]", "x = input f16[16,64] strides=[128,1]"), Origin::kTuned);
  EXPECT_EQ(with("silu", "relu"), Origin::kTuned);
  GraphRequest request;
  request.graph = activated_product();
  request.config = "attention";
  GraphAnswer answer;
  ASSERT_TRUE(gqa::answer(*opened, request, &answer).ok());
  EXPECT_EQ(answer.origin, Origin::kTuned);
  EXPECT_EQ(opened->store().list_winners().size(), 6u);
}

TEST_F(GraphSessionTest, SixteenThreadsSearchOnce) {
  world_.compile_seconds = 0.002;
  const auto opened = open(Tuning::kNow, cache::Mode::kOff);
  std::barrier start(16);
  std::atomic<int> searched = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      const KernelGraph graph = i % 2 == 0 ? attention() : attention_otherwise();
      const GraphAnswer answer = ask(*opened, graph);
      if (answer.origin == Origin::kTuned) ++searched;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(searched, 1);
  EXPECT_EQ(world_.trials, 1);
}

TEST_F(GraphSessionTest, EightProcessesSearchOnce) {
  constexpr int kFailed = 100;
  world_.compile_seconds = 0.01;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(refusal(*open(), activated_product()).ok() ? world_.trials.load() : kFailed);
    children.push_back(child);
  }
  int searched = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_LT(WEXITSTATUS(status), kFailed);
    searched += WEXITSTATUS(status);
  }
  EXPECT_EQ(searched, 1);
}

TEST_F(GraphSessionTest, GraphsAndCallsAreNeverTimedAtOnce) {
  world_.sample_seconds = 0.0002;
  const auto opened = open();
  std::thread calls([&] { EXPECT_TRUE(opened->run(call_of(small_problem())).ok()); });
  std::thread graphs([&] { ask(*opened, activated_product()); });
  calls.join();
  graphs.join();
  EXPECT_EQ(world_.trials, 2);
  EXPECT_EQ(world_.most_timing_at_once, 1);
}

TEST_F(GraphSessionTest, OneCacheGivesOneResult) {
  const KernelGraph first = ask(*open(Tuning::kNow, cache::Mode::kOff), attention()).program;
  const KernelGraph second = ask(*open(Tuning::kNow, cache::Mode::kOff), attention()).program;
  EXPECT_EQ(first, second);
}

// ---- what is chosen

TEST_F(GraphSessionTest, TheFastestThatVerifiedWins) {
  world_.program_microseconds = [](const KernelGraph& program) {
    return thread_text(program).find("m=16 ") != std::string::npos ? 5.0 : 50.0;
  };
  const auto opened = open();
  const GraphAnswer answer = ask(*opened, attention());
  EXPECT_NE(thread_text(answer.program).find("m=16 "), std::string::npos);
  EXPECT_EQ(answer.ready->winner.median_us, 5.0);
}

TEST_F(GraphSessionTest, FamiliesAndTileKernelsAreBothTried) {
  const GraphAnswer answer = ask(*open(), attention());
  bool family = false, tile = false;
  const auto evidence = evidence_of(answer);
  for (const auto& attempt : evidence["attempts"]) {
    const std::string threads = attempt["threads"];
    (threads.find("tile") == std::string::npos ? family : tile) = true;
  }
  EXPECT_TRUE(family);
  EXPECT_TRUE(tile);
}

TEST_F(GraphSessionTest, AProgramThatFailsVerificationIsNeverUsed) {
  world_.verify_program = [](const KernelGraph& program) {
    const bool wrong = thread_text(program).find("tile") == std::string::npos;
    return wrong ? Verdict{false, 1, 1e-3, "wrong"} : Verdict{true, 1e-4, 1e-3, ""};
  };
  world_.program_microseconds = [](const KernelGraph& program) {
    return thread_text(program).find("tile") == std::string::npos ? 1.0 : 100.0;
  };
  const GraphAnswer answer = ask(*open(), attention());
  EXPECT_NE(thread_text(answer.program).find("tile"), std::string::npos);
  int wrong = 0;
  const auto evidence = evidence_of(answer);
  for (const auto& attempt : evidence["attempts"]) wrong += attempt["outcome"] == "verify failed";
  EXPECT_GT(wrong, 0);
}

// The user's own graph, one kernel an operator, overflows where a running maximum does not.
TEST_F(GraphSessionTest, ASafeProgramGoesBeforeAnyFasterOneThatMayOverflow) {
  world_.program_microseconds = [](const KernelGraph& program) { return unsafe_exponents(program) == 0 ? 100.0 : 1.0; };
  const GraphAnswer safe = ask(*open(Tuning::kNow, cache::Mode::kOff), attention());
  EXPECT_EQ(unsafe_exponents(safe.program), 0);
  world_.verify_program = [](const KernelGraph& program) {
    return unsafe_exponents(program) == 0 ? Verdict{false, 1, 1e-3, "wrong"} : Verdict{true, 1e-4, 1e-3, ""};
  };
  const GraphAnswer other = ask(*open(Tuning::kNow, cache::Mode::kOff), attention());
  EXPECT_GT(unsafe_exponents(other.program), 0) << "where no safe one verified, the others have their turn";
}

TEST_F(GraphSessionTest, OfProgramsThatTakeEquallyLongTheMoreExactWinsAndThenTheOneOfFewerKernels) {
  world_.program_microseconds = [](const KernelGraph&) { return 100.0; };
  const auto by_kernels = [&](double one, double more) {
    world_.verify_program = [=](const KernelGraph& program) {
      return Verdict{true, program.nodes().size() == 1 ? one : more, 1e-3, ""};
    };
    return ask(*open(Tuning::kNow, cache::Mode::kOff), attention()).program.nodes().size();
  };
  EXPECT_EQ(by_kernels(1e-4, 1e-4), 1U);
  EXPECT_EQ(by_kernels(1.1e-4, 1e-4), 1U) << "as exact";
  EXPECT_EQ(by_kernels(1e-5, 8e-4), 1U);
  EXPECT_GT(by_kernels(8e-4, 1e-5), 1U);
}

TEST_F(GraphSessionTest, NothingThatVerifiesIsAnErrorWithTheCounts) {
  world_.verify_program = [](const KernelGraph&) { return Verdict{false, 1, 1e-3, "element 3 is wrong"}; };
  world_.program_microseconds = [](const KernelGraph&) { return 1.0; };
  const auto opened = open();
  const Status status = refusal(*opened, attention());
  EXPECT_EQ(status.code(), Code::kNoCandidate);
  for (const char* part : {"verify failed", "element 3 is wrong", "explored", "proved equal"})
    EXPECT_NE(status.message().find(part), std::string::npos) << part << "\n" << status.message();
  EXPECT_EQ(world_.samples, 0) << "what is wrong is not timed";
  EXPECT_EQ(world_.launches, 0);
  EXPECT_TRUE(opened->store().list_winners().empty());
  world_.verify_program = [](const KernelGraph&) { return Verdict{true, 1e-4, 1e-3, ""}; };
  EXPECT_EQ(ask(*opened, attention()).origin, Origin::kTuned) << "a failure is tried again";
}

// However it ranks, and where the budget went with what failed before it.
TEST_F(GraphSessionTest, OperatorByOperatorIsTriedWhereNothingElsePasses) {
  world_.verify_program = [](const KernelGraph& program) {
    const auto fused = [](const KernelNode& node) { return node.block != nullptr; };
    const bool any = std::any_of(program.nodes().begin(), program.nodes().end(), fused);
    return any ? Verdict{false, 1, 1e-3, "element 3 is wrong"} : Verdict{true, 1e-4, 1e-3, ""};
  };
  for (const double budget : {60.0, 1e-6}) {
    policy_.budget_seconds = budget;
    policy_.max_candidates = 1;
    const GraphAnswer answer = ask(*open(Tuning::kNow, cache::Mode::kOff), attention());
    EXPECT_EQ(describe(answer.program), "5 kernels: matmul; exp; sum; div; matmul");
  }
}

KernelGraph exp_tanh_reciprocal() {
  return graph_of(R"(graph 1
x = input f32[4,8]
a = exp(x)
b = tanh(a)
o = reciprocal(b)
outputs o
)");
}

// A graph that cancels is off by more than its yardstick, operator by operator too.
TEST_F(GraphSessionTest, WhereNothingPassesTheOperatorsAreTheAnswerThatPassOneByOne) {
  std::string wrong = "none";
  world_.verify_program = [&](const KernelGraph& program) {
    const bool passes = program.nodes().size() == 1 && name(program.nodes()[0].op) != wrong;
    return passes ? Verdict{true, 1e-4, 1e-3, ""} : Verdict{false, 1, 1e-3, "element 3 is wrong"};
  };
  const KernelGraph chain = exp_tanh_reciprocal();
  world_.verify_program = [&, one = world_.verify_program](const KernelGraph& program) {
    return program.nodes()[0].block ? Verdict{false, 1, 1e-3, "a fused one"} : one(program);
  };
  const GraphAnswer answer = ask(*open(Tuning::kNow, cache::Mode::kOff), chain);
  EXPECT_EQ(describe(answer.program), "3 kernels: exp; tanh; reciprocal");
  EXPECT_EQ(answer.ready->winner.error, 1);
  for (const char* op : {"exp", "tanh", "reciprocal"}) {
    wrong = op;
    EXPECT_EQ(refusal(*open(Tuning::kNow, cache::Mode::kOff), chain).code(), Code::kNoCandidate) << op;
  }
}

// Where the whole gives an infinity, its errors are those of what is finite, and say nothing.
TEST_F(GraphSessionTest, OperatorsThatPassedOneByOneAreToldOfWhateverTheErrorIs) {
  bool whole = false;
  world_.verify_program = [&](const KernelGraph& program) {
    const bool passes = whole || (program.nodes().size() == 1 && !program.nodes()[0].block);
    return passes ? Verdict{true, 0.5, 7, ""} : Verdict{false, 0.5, 7, "element 3 is inf, expected 2"};
  };
  const KernelGraph chain = exp_tanh_reciprocal();
  const std::string words = "each verified by itself";
  GraphAnswer answer = ask(*open(Tuning::kNow, cache::Mode::kOff), chain);
  EXPECT_EQ(answer.ready->winner.error, 0.5);
  EXPECT_NE(explain(chain, answer).find(words), std::string::npos) << explain(chain, answer);
  int by_parts = 0;
  const auto evidence = evidence_of(answer);
  for (const auto& attempt : evidence["attempts"]) {
    by_parts += attempt.value("by_parts", false);
    EXPECT_EQ(attempt.value("by_parts", false), attempt["outcome"] == "winner") << attempt;
  }
  EXPECT_EQ(by_parts, 1);
  whole = true;
  answer = ask(*open(Tuning::kNow, cache::Mode::kOff), chain);
  EXPECT_EQ(explain(chain, answer).find(words), std::string::npos);
}

// Evidence of an older version does not say that a winner passed by its operators; its error over its bound does.
TEST_F(GraphSessionTest, OlderEvidenceIsToldAsItWas) {
  const GraphAnswer answer = ask(*open(Tuning::kNow, cache::Mode::kOff), attention());
  for (const double error : {1.0, 3.0}) {
    auto older = std::make_shared<ReadyProgram>();
    older->winner = answer.ready->winner;
    older->winner.error = error;
    older->winner.bound = 2;
    GraphAnswer told = answer;
    told.ready = older;
    EXPECT_EQ(explain(attention(), told).find("each verified by itself") != std::string::npos, error > 2) << error;
  }
}

TEST_F(GraphSessionTest, ProgramsThatSpillAreKeptOnlyIfNothingElseIs) {
  world_.program_spill_bytes = [](const Source& source) { return source.family != "block" ? 4096 : 0; };
  world_.program_microseconds = [](const KernelGraph& program) {
    return thread_text(program).find("tile") == std::string::npos ? 1.0 : 100.0;
  };
  EXPECT_NE(thread_text(ask(*open(Tuning::kNow, cache::Mode::kOff), attention()).program).find("tile"),
            std::string::npos);
  world_.program_spill_bytes = [](const Source&) { return 4096; };
  EXPECT_EQ(ask(*open(Tuning::kNow, cache::Mode::kOff), attention()).origin, Origin::kTuned);
}

TEST_F(GraphSessionTest, ACompilerThatIsNotThereIsSaid) {
  world_.compile_program = [](const Source&) { return Status(Code::kNoCompiler, "no compiler: install one"); };
  EXPECT_EQ(refusal(*open(), activated_product()).code(), Code::kNoCompiler);
}

TEST_F(GraphSessionTest, NoMoreProgramsAreCompiledThanThePolicyAllows) {
  policy_.max_candidates = 2;
  const GraphAnswer answer = ask(*open(), activated_product());
  EXPECT_LE(evidence_of(answer)["attempts"].size(), 2u);
  EXPECT_GT(evidence_of(answer)["not_tried"]["count"], 0);
}

TEST_F(GraphSessionTest, TheBudgetIsKept) {
  world_.compile_seconds = 0.1;
  world_.sample_seconds = 0.01;
  policy_.compile_threads = 1;
  GraphRequest request;
  request.graph = attention();
  request.budget_seconds = 0.5;
  GraphAnswer answer;
  const auto start = std::chrono::steady_clock::now();
  const auto opened = open();
  ASSERT_TRUE(gqa::answer(*opened, request, &answer).ok());
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  const double search = evidence_of(answer)["seconds"]["search"];
  EXPECT_LT(passed.count(), 0.5 + search + 0.5) << "all programs take over a second to compile";
  EXPECT_LT(world_.compiles, 12);
}

// ---- policies

TEST_F(GraphSessionTest, AGuessIsVerifiedButNeitherTimedNorKept) {
  const auto opened = open(Tuning::kGuess);
  const GraphAnswer answer = ask(*opened, attention());
  EXPECT_EQ(world_.verifies, 1);
  EXPECT_EQ(world_.samples, 0);
  EXPECT_LE(world_.compiles, 6);
  EXPECT_TRUE(opened->store().list_winners().empty());
  EXPECT_FALSE(opened->store().list_kernels().empty());
  EXPECT_EQ(ask(*opened, attention()).ready, answer.ready);
}

TEST_F(GraphSessionTest, WithoutTuningOnlyTheCacheAnswers) {
  const Status status = refusal(*open(Tuning::kCachedOnly), attention());
  EXPECT_EQ(status.code(), Code::kNotCached);
  EXPECT_EQ(work(), 0);
  ask(*open(), attention());
  forget_counts();
  EXPECT_EQ(ask(*open(Tuning::kCachedOnly), attention()).origin, Origin::kCache);
  EXPECT_EQ(work(), 0);
}

TEST_F(GraphSessionTest, AReadOnlyCacheIsReadAndNotWritten) {
  ask(*open(), attention());
  EXPECT_EQ(ask(*open(Tuning::kNow, cache::Mode::kReadOnly), attention()).origin, Origin::kCache);
  const auto opened = open(Tuning::kNow, cache::Mode::kReadOnly);
  EXPECT_EQ(ask(*opened, activated_product()).origin, Origin::kTuned);
  EXPECT_EQ(opened->store().list_winners().size(), 1u);
}

// It queues nothing on anyone's stream.
TEST_F(GraphSessionTest, ASearchBesideACaptureAnswers) {
  world_.capturing = [](void*) { return true; };
  EXPECT_EQ(ask(*open(), activated_product()).origin, Origin::kTuned);
}

TEST_F(GraphSessionTest, AnUnknownConfigIsRefusedWhateverTheCacheHolds) {
  GraphRequest request;
  request.graph = activated_product();
  request.config = "attenton";
  GraphAnswer answer;
  const Status status = gqa::answer(*open(Tuning::kCachedOnly), request, &answer);
  EXPECT_EQ(status.code(), Code::kOption);
  EXPECT_NE(status.message().find("attention"), std::string::npos) << status.message();
}

// ---- rows that cannot be used

class BadRow : public GraphSessionTest {
 protected:
  // Changes the kept row; then a warning, a search, and a row that is good again.
  void expect_replaced(const std::function<void(cache::WinnerRow*)>& change, const std::string& warning) {
    {
      const auto opened = open();
      ask(*opened, activated_product());
      cache::WinnerRow row = opened->store().list_winners().front();
      row = *opened->store().find_winner(row.key, row.compiler);
      change(&row);
      ASSERT_TRUE(opened->store().put_winner(row));
    }
    const auto opened = open();
    const GraphAnswer answer = ask(*opened, activated_product());
    EXPECT_EQ(answer.origin, Origin::kTuned);
    ASSERT_FALSE(warnings_.empty());
    EXPECT_NE(warnings_.front().find(warning), std::string::npos) << warnings_.front();
    expect_same(activated_product(), answer);
    EXPECT_EQ(ask(*open(), activated_product()).origin, Origin::kCache);
  }
};

TEST_F(BadRow, ProgramThatIsNoText) {
  expect_replaced([](cache::WinnerRow* row) { row->candidate = "graph 1\nnonsense"; }, "nonsense");
}

TEST_F(BadRow, ProgramThatComputesSomethingElse) {
  const auto change = [](cache::WinnerRow* row) { row->candidate.replace(row->candidate.find("silu"), 4, "relu"); };
  expect_replaced(change, "does not compute the graph");
}

TEST_F(BadRow, ProgramOfOtherShapes) {
  const auto change = [](cache::WinnerRow* row) {
    row->candidate = to_text(graph_of("graph 1\nx = input f16[4]\ny = silu(x)\n"));
  };
  expect_replaced(change, "does not compute the graph");
}

TEST_F(BadRow, MoreKernelsThanTheProgramNeeds) {
  expect_replaced([](cache::WinnerRow* row) { row->kernel += " " + row->kernel; }, "names");
}

TEST_F(BadRow, KernelThatTheDeviceRefuses) {
  ask(*open(), activated_product());
  int refused = 0;  // before the lease is asked for, and under it
  world_.load_program = [&](const Program&) {
    return refused++ < 2 ? Status(Code::kDeviceFailed, "the driver is too old") : Status();
  };
  EXPECT_EQ(ask(*open(), activated_product()).origin, Origin::kTuned);
  ASSERT_FALSE(warnings_.empty());
  EXPECT_NE(warnings_.front().find("the driver is too old"), std::string::npos) << warnings_.front();
}

// ---- what is kept and told

TEST_F(GraphSessionTest, KernelsThatTheCacheHoldsAreNotCompiledAgain) {
  ask(*open(Tuning::kGuess), activated_product());
  const int compiled = world_.compiles;
  EXPECT_GT(compiled, 0);
  const auto opened = open();
  ask(*opened, activated_product());
  EXPECT_EQ(static_cast<std::size_t>(world_.compiles), opened->store().list_kernels().size());
}

TEST_F(GraphSessionTest, AllKernelsOfAWinnerTravelWithIt) {
  world_.program_microseconds = [](const KernelGraph& program) { return program.nodes().size() == 2 ? 1.0 : 100.0; };
  const auto opened = open();
  const GraphAnswer answer = ask(*opened, activated_product());
  ASSERT_EQ(answer.program.nodes().size(), 2u);
  EXPECT_EQ(answer.ready->winner.kernels().size(), 2u);
  cache::Store& store = opened->store();
  EXPECT_TRUE(store.verify(false).empty());
  const std::string exported = folder_.file("export.db");
  ASSERT_EQ(store.export_to(exported), "");
  cache::Store::Options other;
  other.path = exported;
  SessionOptions options;
  options.tuning = Tuning::kCachedOnly;
  Session copy(std::make_unique<FakeDevice>(&world_), cache::Store::open(other), options);
  EXPECT_EQ(ask(copy, activated_product()).origin, Origin::kCache);
}

TEST_F(GraphSessionTest, TheEvidenceHoldsTheSearchAndEveryProgram) {
  const GraphAnswer answer = ask(*open(), attention());
  const auto evidence = evidence_of(answer);
  std::int64_t explored = 0, kept = 0, pruned = 0;
  for (const auto& stage : evidence["search"]["stages"]) {
    explored += stage["explored"].get<std::int64_t>();
    kept += stage["kept"].get<std::int64_t>();
    for (const auto& [reason, count] : stage["pruned"].items()) pruned += count.get<std::int64_t>();
  }
  EXPECT_GT(explored, 100);
  EXPECT_EQ(explored, kept + pruned);
  EXPECT_EQ(evidence["pruned"]["count"], pruned);
  EXPECT_GT(evidence["search"]["proved"], 4);
  EXPECT_GT(evidence["search"]["search_seconds"], 0);
  int winners = 0;
  for (const auto& attempt : evidence["attempts"]) {
    winners += attempt["outcome"] == "winner";
    EXPECT_FALSE(attempt["program"].get<std::string>().empty());
    EXPECT_GT(attempt["predicted_us"], 0);
  }
  EXPECT_EQ(winners, 1);
}

TEST_F(GraphSessionTest, TheSameIsToldOfACachedProgram) {
  const std::string told = explain(attention(), ask(*open(), attention()));
  for (const char* part : {"f16[1,32,64]", "matmul, exp, sum, div, matmul", "explored", "pruned", "proved equal",
                           "winner", "slower", "0.001 of 0.002", "running maximum"})
    EXPECT_NE(told.find(part), std::string::npos) << part << "\n" << told;
  const std::string again = explain(attention(), ask(*open(), attention()));
  const std::string note = "from the cache: ";
  ASSERT_NE(again.find(note), std::string::npos) << again;
  std::string without = again;
  without.erase(again.find(note), again.find('\n', again.find(note)) + 1 - again.find(note));
  EXPECT_EQ(without, told);
}

TEST_F(GraphSessionTest, ProgressTellsEachPhase) {
  std::set<TunePhase> phases;
  Progress last;
  GraphRequest request;
  request.graph = attention();
  request.progress = [&](const Progress& progress) {
    phases.insert(progress.phase);
    EXPECT_GE(progress.seconds, last.seconds);
    EXPECT_GE(progress.enumerated, last.enumerated);
    last = progress;
  };
  GraphAnswer answer;
  ASSERT_TRUE(gqa::answer(*open(), request, &answer).ok());
  EXPECT_EQ(phases, (std::set{TunePhase::kSearch, TunePhase::kCompile, TunePhase::kVerify, TunePhase::kTime}));
  EXPECT_GT(last.pruned, 0);
  EXPECT_GT(last.timed, 1);
  EXPECT_EQ(last.compiled, last.kernels);
  EXPECT_EQ(last.best_us, 10.0);
}

}  // namespace
}  // namespace gqa::test
