// charts_test.cc: the geometry of plots, and a report of rows that nobody's tuner wrote.
#include "tools/cache/charts.h"

#include <gtest/gtest.h>

#include <regex>

#include "tools/cache/report.h"

namespace gqa::tools {
namespace {

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Charts, StepsAreRoundAndCoverTheRange) {
  EXPECT_EQ(round_steps(3, 40), (std::vector<double>{2, 5, 10, 20, 50}));
  EXPECT_EQ(round_steps(10, 10), (std::vector<double>{10}));
  EXPECT_EQ(round_steps(0.3, 0.3), (std::vector<double>{0.2, 0.5}));
  EXPECT_TRUE(round_steps(0, 5).empty());
  EXPECT_TRUE(round_steps(5, 4).empty());
}

TEST(Charts, TextIsEscaped) {
  EXPECT_EQ(escaped("<script>\"a\" & 'b'</script>\x01"),
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;?");
}

TEST(Charts, AScatterHasAPointForEachPair) {
  const std::string plot = scatter({{10, 20, "a", true}, {100, 50, "b<", false}, {0, 5, "untimed", false}}, "x", "y");
  EXPECT_EQ(count(plot, "<circle"), 2);
  EXPECT_EQ(count(plot, "class=\"chosen\""), 1);
  EXPECT_NE(plot.find("b&lt;: x 100 us, y 50.0 us"), std::string::npos) << plot;
  EXPECT_EQ(scatter({{0, 1, "", false}}, "x", "y"), "");
  // Where both are equal the point lies on the line from corner to corner.
  const std::string equal = scatter({{10, 10, "", false}, {1000, 1000, "", false}}, "x", "y");
  EXPECT_NE(equal.find("cx=\"56.0\" cy=\"256.0\""), std::string::npos) << equal;
  EXPECT_NE(equal.find("cx=\"348.0\" cy=\"26.0\""), std::string::npos) << equal;
}

TEST(Charts, BarsAndStripsStayWithinTheirLine) {
  EXPECT_NE(meter(0.25, 0.5, false).find("width=\"25.0\""), std::string::npos);
  EXPECT_NE(meter(0.25, 0.5, false).find("M50.0 0V10"), std::string::npos);
  EXPECT_NE(meter(7, -1, true).find("class=\"chosen\" width=\"100.0\""), std::string::npos);
  EXPECT_EQ(meter(7, -1, true).find("mark"), std::string::npos);
  EXPECT_EQ(count(strip({1, 2, 3}, 1, 3, 2), "5V17"), 3);
  EXPECT_NE(strip({2, 2}, 2, 2, 2).find("M500.0 1V21"), std::string::npos);
}

TEST(Report, WhatTheRowSaysIsTextAndNeverMarkup) {
  cache::WinnerRow row;
  row.key.signature = "<b>shape</b>";
  row.key.device = "cuda <i>x</i>";
  row.candidate = "<script>alert(1)</script>";
  row.kernel = "0123";
  row.evidence = R"({"attempts": [7, {"candidate": "</code><script>", "outcome": "slower", "median_us": 3,
      "detail": "<img>", "timings_us": [3, "x"], "predicted_us": "soon", "bound": 1, "error": 2}],
      "pruned": {"count": 3, "by_reason": {"<u>why</u>": 3, "none": "many"}, "listed": [8, {"candidate": "<s>"}]},
      "seconds": 3})";
  const std::string page = report(row, {});
  EXPECT_TRUE(page.starts_with(kReportMark));
  for (const char* markup : {"<b>shape", "<i>x", "<script", "<img", "<u>why", "<s>"})
    EXPECT_EQ(page.find(markup), std::string::npos) << markup;
  EXPECT_NE(page.find("&lt;u&gt;why&lt;/u&gt;"), std::string::npos);
}

cache::WinnerRow row_with(const std::string& evidence) {
  cache::WinnerRow row;
  row.key.signature = "hq=4,sq=8,d=64";
  row.key.device = "host x86";
  row.evidence = evidence;
  return row;
}

// The part of a page that begins with that title.
std::string section_of(const std::string& page, const std::string& title) {
  const std::size_t at = page.find("<h2>" + title + "</h2>");
  return at == std::string::npos ? "" : page.substr(at, page.find("</section>", at) - at);
}

TEST(Report, ErrorsByRowAreSharesOfTheirBoundsWithTheirPlaces) {
  const std::string page = section_of(report(row_with(R"({"attempts": [
      {"candidate": "close", "outcome": "slower", "error": 4, "bound": 5, "errors": [
         {"what": "worst row", "where": "output: batch <1>", "error": 4, "bound": 5}]},
      {"candidate": "wrong", "outcome": "verify failed", "error": 14, "bound": 7, "errors": [
         {"what": "worst element", "where": "output: dim 3", "error": 14, "bound": 7}]},
      {"candidate": "best", "outcome": "winner", "by_parts": true, "error": 0.5, "bound": 1.25, "errors": [
         {"what": "all rows", "where": "output: 64 rows", "error": 0.5, "bound": 1.25},
         7, {"what": "no bound", "error": 1}, {"what": "words", "error": "many", "bound": "few"}]},
      {"candidate": "old", "outcome": "slower", "error": 1, "bound": 2}]})"),
                                             {}),
                                      "Errors by row");
  const auto at = [&page](const char* part) { return page.find(part); };
  EXPECT_LT(at("best"), at("wrong")) << "the winner comes first, " << page;
  EXPECT_LT(at("wrong"), at("close")) << "then who went farthest";
  EXPECT_NE(at("<b class=\"failed\">200 %</b>"), std::string::npos) << page;
  EXPECT_NE(at("<b>80 %</b>"), std::string::npos) << page;
  EXPECT_NE(at("<b>40 %</b>"), std::string::npos) << page;
  EXPECT_NE(at("class=\"chosen\" width=\"32.0\""), std::string::npos) << "40 % of a line that ends at 125 %";
  EXPECT_NE(at("class=\"other\" width=\"100.0\""), std::string::npos) << "no bar leaves its line";
  EXPECT_NE(at("4 of 5 \u00b7 output: batch &lt;1&gt;"), std::string::npos) << page;
  EXPECT_EQ(count(page, "passed by itself"), 1);
  EXPECT_EQ(count(page, "<svg"), 3) << "what is no error draws none";
  EXPECT_EQ(at(">old<"), std::string::npos);
}

TEST(Report, ManyCandidatesErrorsByRowAreFolded) {
  std::string attempts;
  for (int i = 0; i < 9; ++i)
    attempts += std::string(i == 0 ? "" : ", ") + R"({"candidate": "c", "outcome": "slower", "errors": [
        {"what": "all rows", "where": "output: 64 rows", "error": 0.5, "bound": 1.25}]})";
  const std::string page = section_of(report(row_with(R"({"attempts": [)" + attempts + "]}"), {}), "Errors by row");
  EXPECT_EQ(count(page, "<svg"), 9);
  EXPECT_EQ(count(page.substr(page.find("<details>")), "<svg"), 3);
  EXPECT_NE(page.find("3 more candidates"), std::string::npos);
}

TEST(Report, EvidenceOfAnOlderVersionHasNoErrorsByRow) {
  for (const char* errors : {"", R"(, "errors": [])", R"(, "errors": {})", R"(, "errors": 3)"}) {
    const std::string page = report(row_with(R"({"attempts": [{"candidate": "c", "outcome": "winner", "median_us": 3,
        "error": 1, "bound": 2)" + std::string(errors) +
                                             "}]}"),
                                    {});
    EXPECT_EQ(section_of(page, "Errors by row"), "") << errors;
    EXPECT_NE(section_of(page, "Errors"), "") << errors;
  }
}

TEST(Report, WithoutEvidenceItSaysSo) {
  cache::WinnerRow row;
  row.key.signature = "hq=4,sq=8,d=64";
  row.key.device = "host x86";
  for (const char* evidence : {"", "{}", "[]", "no JSON", R"({"attempts": {}})"}) {
    row.evidence = evidence;
    EXPECT_NE(report(row, {}).find("no evidence"), std::string::npos) << evidence;
  }
}

}  // namespace
}  // namespace gqa::tools
