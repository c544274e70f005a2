// text_test.cc: numbers, tables and the progress line as people read them.
#include "tools/cache/text.h"

#include <gtest/gtest.h>

#include "tools/cache/progress.h"

namespace gqa::tools {
namespace {

TEST(Text, Units) {
  EXPECT_EQ(time_text(0), "-");
  EXPECT_EQ(time_text(3.456), "3.46 us");
  EXPECT_EQ(time_text(12.34), "12.3 us");
  EXPECT_EQ(time_text(4560), "4.56 ms");
  EXPECT_EQ(seconds_text(3.21), "3.2 s");
  EXPECT_EQ(seconds_text(125), "2 min 5 s");
  EXPECT_EQ(bytes_text(812), "812 B");
  EXPECT_EQ(bytes_text(1500000), "1.50 MB");
  EXPECT_EQ(age_text(1000, 1000 + 59), "now");
  EXPECT_EQ(age_text(1000, 1000 + 3 * 86400), "3 d");
  EXPECT_EQ(counted(1, "kernel"), "1 kernel");
  EXPECT_EQ(counted(1234, "kernel"), "1,234 kernels");
}

TEST(Text, TableLinesUp) {
  Table table({"A", "LONG"});
  table.add({"value", "x"});
  table.add({"", ""});
  std::FILE* file = std::tmpfile();  // no terminal
  EXPECT_EQ(table.text(Terminal(file)), "A      LONG\nvalue  x\n\n");
  std::fclose(file);
}

TEST(Text, TableFits) {
  Table table({"KEY", "SHAPE", "CANDIDATE"});
  table.add({"0123", "hq=32,d=128", "flash m=64"});
  table.may_shrink(2, 7);
  table.may_shrink(1, 6);
  std::FILE* file = std::tmpfile();
  const Terminal terminal(file);
  const std::string whole = "KEY   SHAPE        CANDIDATE\n0123  hq=32,d=128  flash m=64\n";
  EXPECT_EQ(table.text(terminal), whole);
  EXPECT_EQ(table.text(terminal, 29), whole);
  EXPECT_EQ(table.text(terminal, 26), "KEY   SHAPE        CANDI..\n0123  hq=32,d=128  flash..\n");
  EXPECT_EQ(table.text(terminal, 22), "KEY   SHAPE    CANDI..\n0123  hq=32..  flash..\n");
  EXPECT_EQ(table.text(terminal, 8), "KEY   SH\n0123  hq\n");
  Table lean({"KEY", "SHAPE", "NOTE"});
  lean.add({"0123", "hq=32", "x"});
  lean.may_shrink(2, 0);
  lean.may_shrink(1, 1);
  EXPECT_EQ(lean.text(terminal, 17), "KEY   SHAPE  NOTE\n0123  hq=32  x\n");
  EXPECT_EQ(lean.text(terminal, 16), "KEY   SHAPE\n0123  hq=32\n");
  std::fclose(file);
}

WarmProgress half_way() {
  WarmProgress progress;
  progress.done = 1;
  progress.total = 4;
  progress.seconds_a_shape = 10;
  progress.shape.selected = 12;
  progress.shape.compiled = 5;
  progress.shape.verified = 4;
  progress.shape.timed = 3;
  progress.shape.best_us = 12.34;
  progress.shape.seconds = 4;
  progress.shape.seconds_left = 4;
  return progress;
}

TEST(ProgressText, SaysAllThatIsKnown) {
  EXPECT_EQ(progress_line(half_way(), 200),
            "[#######-------------] 1/4 shapes  compiled 5 verified 4 timed 3 of 12  best 12.3 us  24.0 s left");
}

TEST(ProgressText, FitsAndFills) {
  WarmProgress progress = half_way();
  EXPECT_EQ(progress_line(progress, 30), "[#######-------------] 1/4 sha");
  EXPECT_EQ(progress_line(progress, 0), "");
  progress.done = 4;
  progress.shape = {};
  EXPECT_EQ(progress_line(progress, 200).substr(0, 33), "[####################] 4/4 shapes");
  EXPECT_NE(progress_line(progress, 200).find("0.0 s left"), std::string::npos);
}

TEST(ProgressText, NothingWhereThereIsNoTerminal) {
  std::FILE* file = std::tmpfile();
  {
    ProgressLine line(file, 2, 8);
    line.update(half_way().shape);
    line.next_shape();
    line.clear();
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace gqa::tools
