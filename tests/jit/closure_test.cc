// closure_test.cc: a kernel's key follows the text that the kernel is made of, and nothing else; and the version of a
// family is raised where that text changes.
#include "jit/closure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "jit/block/tile_codegen.h"
#include "jit/codegen.h"
#include "search/version.h"
#include "tests/golden_version.h"
#include "tests/search/from_text.h"
#include "tests/search/graph/stream_graphs.h"
#include "tests/search/graph/tile/tile_graphs.h"

namespace gqa {
namespace {

using Headers = std::vector<EmbeddedHeader>;

TEST(Closure, FollowsIncludesThroughHeadersEachOnce) {
  const Headers headers = {{"a.h", "#include \"sub/b.h\"\n  # include <c.h>\n"},
                           {"sub/b.h", "#pragma once\n#include \"a.h\"\n"},
                           {"c.h", "int c;\n"},
                           {"d.h", "int d;\n"}};
  const auto found = included_headers("#include \"a.h\"\n#include \"missing.h\"\n// #include \"d.h\"", headers);
  std::string names;
  for (const EmbeddedHeader* header : found) names += header->name + " ";
  EXPECT_EQ(names, "a.h sub/b.h c.h ");
  EXPECT_TRUE(included_headers("int main() {}\n#define include \"d.h\"\n#include", headers).empty());
  ASSERT_EQ(included_headers("#include \"d.h\"", headers).size(), 1u) << "a last line without its end";
}

TEST(Closure, IsAHashOfNamesAndTexts) {
  const Headers headers = {{"a.h", "int a;\n"}, {"b.h", "int b;\n"}};
  const std::string source = "#include \"a.h\"\n", hash = closure_hash(source, headers);
  EXPECT_EQ(hash.size(), 32u);
  EXPECT_EQ(hash.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(closure_hash(source, headers), hash);
  EXPECT_NE(closure_hash(source + " ", headers), hash);
  EXPECT_NE(closure_hash(source, {{"a.h", "int a; \n"}}), hash);
  EXPECT_EQ(closure_hash(source, {{"a.h", "int a;\n"}, {"b.h", "int other;\n"}}), hash) << "not included";
  EXPECT_NE(closure_hash("#include \"b.h\"\n", {{"b.h", "int a;\n"}}), hash) << "by another name";
  const std::string both = source + "#include \"b.h\"\n";
  EXPECT_NE(closure_hash(both, {{"a.h", "int a;\n"}}), closure_hash(both, {{"b.h", "int a;\n"}}));
}

const ThreadPlan kBlockThreads = tile_threads(4, 3);

struct Representative {
  std::string family, source;
};

// Every family with each mask, type and head_dim that it is made for, and each mechanism.
std::vector<Representative> representatives() {
  static const struct {
    int head_dim;
    const char* candidate;
  } kCandidates[] = {
      {64, "flash m=128 n=64 warps=4 stages=2 pack=1"},
      {128, "flash m=64 n=64 warps=4 stages=3 pack=4"},
      {256, "flash m=64 n=32 warps=4 stages=2 pack=1"},
      {64, "split m=16 n=32 warps=4 stages=3 pack=4 splits=8"},
      {128, "split m=16 n=16 warps=4 stages=3 pack=4 splits=8"},
      {256, "split m=16 n=16 warps=4 stages=2 pack=4 splits=8"},
      {64,
       "warpgroup m=192 n=128 warps=12 stages=3 pack=1 dynamic=0 out=1 ones_column=1 queries=2 cluster=2 stream_k=66"},
      {64, "warpgroup m=192 n=128 warps=12 stages=3 pack=1 dynamic=1 out=1 ones_column=1"},
      {128, "warpgroup m=192 n=80 warps=12 stages=3 pack=1 dynamic=1 out=1 q_regs=2"},
      {128, "warpgroup m=192 n=80 warps=12 stages=3 pack=1 dynamic=0 out=1 cluster=2 stream_k=66"},
      {128, "warpgroup m=64 n=64 warps=8 stages=2 pack=4 dynamic=0 out=1"},
      {256, "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=2 q_regs=9 cluster=2"},
      {256, "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=2 q_regs=7"},
  };
  std::vector<Representative> all;
  for (const auto& [head_dim, text] : kCandidates) {
    Candidate candidate = candidate_of(text);
    if (auto* c = std::get_if<WgmmaFlash>(&candidate.of); c != nullptr && c->key_shares == 2) c->out_parts = 0;
    for (const char* rest : {",dtype=bf16", ",dtype=bf16,causal", ",dtype=f16", ",dtype=f16,causal"}) {
      const Problem problem = problem_of("hq=32,hk=8,sq=4096,d=" + std::to_string(head_dim) + rest);
      all.push_back({std::string(name(candidate)), attention_source(problem, candidate)});
    }
  }
  // Those that come in programs: transposed keys, unaligned rows, steps on scores.
  const Problem stepped = problem_of("hq=8,hk=8,sq=256,d=64,dtype=f16,ktrans,scores=tanh");
  for (const char* candidate :
       {"flash m=64 n=64 warps=4 stages=2 pack=1", "split m=16 n=16 warps=4 stages=3 pack=1 splits=4",
        "warpgroup m=128 n=128 warps=8 stages=2 pack=1 dynamic=0 out=1"}) {
    const Candidate of_program = candidate_of(candidate);
    all.push_back({std::string(name(of_program)), attention_source(stepped, of_program)});
  }
  for (const std::string* text : tiles::kAll)
    all.push_back({std::string(kBlockFamily), tile_source(one_kernel(*text, kBlockThreads))});
  for (const std::string* text : streams::kAll) {
    for (const ThreadPlan& threads : {stream_threads(8, 1), stream_threads(4, 1, 3)})
      all.push_back({std::string(kBlockFamily), tile_source(one_kernel(*text, threads))});
  }
  for (const char* text : {"a = input bf16[7,100]\nb = input bf16[100,33]\ny = matmul(a, b)\n",
                           "a = input bf16[3,5]\ny = softmax(a) dim=0\n",
                           "a = input bf16[3,70]\nb = input bf16[70]\ny = rms_norm(a, b) eps=1e-05\n"})
    all.push_back({std::string(kBlockFamily), tile_source(graph_of(std::string("graph 1\n") + text))});
  all.push_back({std::string(kMergeFamily), merge_source()});
  all.push_back({std::string(kAppendFamily), append_source()});
  return all;
}

TEST(Closure, OfTwoSourcesIsNeverTheSame) {
  std::set<std::string> sources = {check_source(), merge_source(), append_source()}, hashes;
  for (const Representative& representative : representatives()) sources.insert(representative.source);
  for (const std::string& source : sources) {
    EXPECT_EQ(source.find("#error"), std::string::npos) << source;
    hashes.insert(closure_hash(source));
  }
  EXPECT_EQ(hashes.size(), sources.size());
}

// One source for each set of headers that sources include.
std::vector<std::string> sources_by_headers() {
  std::map<std::vector<const EmbeddedHeader*>, std::string> sources;
  for (const std::string& helper : {check_source(), merge_source(), append_source()})
    sources[included_headers(helper)] = helper;
  for (const Representative& representative : representatives())
    sources[included_headers(representative.source)] = representative.source;
  std::vector<std::string> each;
  for (const auto& [headers, source] : sources) each.push_back(source);
  return each;
}

// Each header in turn, a comment added: keys of what includes it change, no others do; and each is of use to some.
TEST(Closure, AChangeOfAnyHeaderChangesTheKeysOfWhatIncludesIt) {
  const std::vector<std::string> sources = sources_by_headers();
  EXPECT_GE(sources.size(), 5u);
  Headers headers = embedded_headers();
  std::vector<std::string> hashes;
  for (const std::string& source : sources) hashes.push_back(closure_hash(source, headers));
  for (EmbeddedHeader& header : headers) {
    const std::string text = header.text;
    header.text += "//\n";
    int changed = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto met = included_headers(sources[i], headers);
      const bool includes = std::find(met.begin(), met.end(), &header) != met.end();
      EXPECT_EQ(closure_hash(sources[i], headers) != hashes[i], includes) << header.name << "\n" << sources[i];
      changed += includes;
    }
    EXPECT_GT(changed, 0) << "no kernel includes " << header.name;
    header.text = text;
  }
}

// Without comments, includes and second blanks: what the compiler sees, wherever headers lie. Texts of device code have
// no strings with // in them.
std::string bare(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at, 2) == "//" || text.substr(at).starts_with("#include"))
      at = std::min(text.find('\n', at), text.size());
    if (at < text.size() && text.substr(at, 2) == "/*") at = std::min(text.find("*/", at), text.size()) + 2;
    const bool blank = at >= text.size() || std::string_view(" \t\n").find(text[at]) != std::string_view::npos;
    if (!blank)
      out += text[at];
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  return out;
}

TEST(Closure, BareTextHasNoCommentAndKeepsTheRest) {
  EXPECT_EQ(bare("int a; // b\n\n  int /* c */ d;\n"), "int a; int d; ");
  EXPECT_EQ(bare("#pragma once\n#include \"a.h\"\nint a;"), "#pragma once int a;");
  EXPECT_EQ(bare("a / b // c"), "a / b ");
  EXPECT_EQ(bare("a /* b"), "a ");
}

// The hash of sources and headers, each once.
std::string family_hash(const std::string& family) {
  std::set<std::string> texts;
  for (const Representative& representative : representatives()) {
    if (representative.family != family) continue;
    texts.insert(bare(representative.source));
    for (const EmbeddedHeader* header : included_headers(representative.source)) texts.insert(bare(header->text));
  }
  std::string all;
  for (const std::string& text : texts) all += text + "\n";
  return closure_hash(all, {});
}

TEST(Closure, AFamilysVersionIsRaisedWhereItsDeviceTextChanges) {
  GoldenVersions golden(GQA_GOLDEN_DIR "/families.txt");
  for (const FamilyVersion& family : kFamilyVersions) {
    const std::string name(family.name);
    golden.expect(name, family.version, family_hash(name), "the version of " + name + " (search/version.h)");
  }
}

}  // namespace
}  // namespace gqa
