#include "common/text/diff.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "common/testing/printing.h"

namespace talos {
namespace {

kj::String diff(kj::StringPtr from, kj::StringPtr to, unsigned context = 3) {
  auto text = unifiedDiff(from, to, "a", "b", context);
  kj::StringPtr head = "--- a\n+++ b\n";
  if (text.size() == 0) return text;
  EXPECT_TRUE(text.startsWith(head)) << text.cStr();
  return kj::str(text.slice(head.size()));
}

// Catches: line numbers that are off, counts that diff(1) leaves out, hunks that should be one.
TEST(Diff, WritesTheUnifiedFormat) {
  struct Row {
    const char *from, *to, *expected;
  };
  for (auto& row : std::vector<Row>{
           {"", "", ""},
           {"a\n", "a\n", ""},
           {"", "a\n", "@@ -0,0 +1 @@\n+a\n"},
           {"a\n", "", "@@ -1 +0,0 @@\n-a\n"},
           {"a\nb\n", "a\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
           {"a\nb", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
           {"a", "b",
            "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"},
           {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n9\n",
            "@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n"},
           {"x\n1\n2\n3\n4\n5\n6\ny\n", "1\n2\n3\n4\n5\n6\n",
            "@@ -1,8 +1,6 @@\n-x\n 1\n 2\n 3\n 4\n 5\n 6\n-y\n"},
           {"x\n1\n2\n3\n4\n5\n6\n7\ny\n", "1\n2\n3\n4\n5\n6\n7\n",
            "@@ -1,4 +1,3 @@\n-x\n 1\n 2\n 3\n@@ -6,4 +5,3 @@\n 5\n 6\n 7\n-y\n"},
           {"a\n", "a\r\n", "@@ -1 +1 @@\n-a\n+a\\x0d\n"},
           {"\x1b[2J\n", "\t\x7f\n", "@@ -1 +1 @@\n-\\x1b[2J\n+\t\\x7f\n"},
       }) {
    EXPECT_EQ(std::string(row.expected), diff(row.from, row.to).cStr()) << row.from;
  }
  EXPECT_EQ(kj::StringPtr("@@ -2 +1,0 @@\n-b\n"), diff("a\nb\nc\n", "a\nc\n", 0));
}

// Returns the lines of a text that a diff describes, made from the old ones, as patch(1) reads it.
std::string patched(const std::vector<std::string>& from, kj::StringPtr diff) {
  std::string out;
  size_t next = 0;
  std::istringstream lines(diff.cStr());
  std::string line;
  std::getline(lines, line), std::getline(lines, line);
  while (std::getline(lines, line)) {
    if (line[0] == '@') {
      size_t begin = 0, count = 1;
      if (sscanf(line.c_str(), "@@ -%zu,%zu", &begin, &count) < 2) count = 1;
      size_t first = count == 0 ? begin : begin - 1;
      while (next < first) out += from[next++] + "\n";
      continue;
    }
    if (line[0] == '+') {
      out += line.substr(1) + "\n";
      continue;
    }
    EXPECT_EQ(from[next], line.substr(1));
    if (line[0] == ' ') out += line.substr(1) + "\n";
    ++next;
  }
  while (next < from.size()) out += from[next++] + "\n";
  return out;
}

// Catches: a script that does not lead from one text to the other; a script that is not the
// shortest (compared with the longest common subsequence, computed in the plain way).
TEST(Diff, IsAShortestScript) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> a, b;
    auto fill = [&](std::vector<std::string>& lines) {
      for (size_t i = random() % 14; i > 0; --i)
        lines.push_back(std::string(1, 'a' + random() % 4));
    };
    fill(a), fill(b);
    auto join = [](const std::vector<std::string>& lines) {
      std::string text;
      for (auto& line : lines) text += line + "\n";
      return text;
    };
    std::vector<std::vector<size_t>> common(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 1; i <= a.size(); ++i) {
      for (size_t j = 1; j <= b.size(); ++j) {
        common[i][j] = a[i - 1] == b[j - 1] ? common[i - 1][j - 1] + 1
                                            : std::max(common[i - 1][j], common[i][j - 1]);
      }
    }
    auto from = join(a), to = join(b);
    auto text = unifiedDiff(from.c_str(), to.c_str(), "a", "b", random() % 4);
    if (from == to) {
      EXPECT_EQ(0, text.size());
      continue;
    }
    EXPECT_EQ(to, patched(a, text)) << text.cStr();
    size_t changed = 0;
    std::istringstream lines(text.cStr());
    std::string line;
    std::getline(lines, line), std::getline(lines, line);
    while (std::getline(lines, line)) changed += line[0] == '+' || line[0] == '-';
    EXPECT_EQ(a.size() + b.size() - 2 * common[a.size()][b.size()], changed) << text.cStr();
  }
}

// Catches: memory or time that grows with the square of texts that have nothing in common.
TEST(Diff, GivesUpOnTextsThatDifferEverywhere) {
  std::string a = "same\n", b = "same\n", c = "same\n";
  for (int i = 0; i < 100'000; ++i) {
    a += "a" + std::to_string(i) + "\n";
    b += "b" + std::to_string(i) + "\n";
  }
  for (int i = 0; i < 300'000; ++i) c += i % 2 ? "\n" : "x\n";
  auto text = unifiedDiff(a.c_str(), b.c_str(), "a", "b");
  EXPECT_TRUE(
      kj::StringPtr(text).startsWith("--- a\n+++ b\n@@ -1,100001 +1,100001 @@\n same\n-a0\n"));
  EXPECT_LT(0u, unifiedDiff(a.c_str(), c.c_str(), "a", "b").size());
}

}  // namespace
}  // namespace talos
