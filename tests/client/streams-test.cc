// stdout carries a command's result and nothing else: for every command of the table, the output on
// each stream when it succeeds, as in streams.txt. A notice on stdout ends up in the file or pipe
// of a script; a notice on stderr that says nothing new hides the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/client/users-lines.h"
#include "tests/client/whole-client.h"

namespace talos::talosctl {
namespace {

// A row of the file.
struct Row {
  std::string words;     // command line, without "talosctl"
  std::string out, err;  // "-": empty; else a regular expression that is found in it
  int status = 0;        // another status follows the other columns
};

std::vector<Row> rowsOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream columns(line);
    Row row;
    std::getline(columns, row.words, '\t');
    std::getline(columns, row.out, '\t');
    std::getline(columns, row.err, '\t');
    if (std::string status; std::getline(columns, status, '\t')) row.status = std::stoi(status);
    if (row.err.empty()) throw std::runtime_error("three columns are needed: " + line);
    rows.push_back(row);
  }
  return rows;
}

struct Streams : public WholeClient {
  // Makes the objects that a command acts on.
  void prepare(const Leaf& leaf) {
    for (auto& entry : c.nodes) {
      entry.value.logLines.add(kj::str("one"));
      entry.value.upgrades.voters = leaf.path[0] == "etcd" ? 3 : 0;
      entry.value.authority = &c.authority;
      if (leaf.name == "meta delete") entry.value.meta.insert(10, kj::heapArray<kj::byte>(1));
    }
  }
  // The longest command of the table that the words begin with.
  const Leaf* leafOf(const Words& words) {
    const Leaf* best = nullptr;
    for (auto& leaf : leaves) {
      if (leaf.path.size() > words.size()) continue;
      if (!std::equal(leaf.path.begin(), leaf.path.end(), words.begin())) continue;
      if (best == nullptr || leaf.path.size() > best->path.size()) best = &leaf;
    }
    return best;
  }
};

void expectStream(const char* name, const std::string& expected, const std::string& text) {
  if (expected == "-") {
    EXPECT_TRUE(text.empty()) << name << ": " << text.substr(0, 500);
  } else {
    EXPECT_TRUE(std::regex_search(text, std::regex(expected)))
        << name << ": " << text.substr(0, 500);
  }
}

// Catches: a notice on stdout, a result on stderr, words where none are needed.
TEST_F(Streams, AreThoseOfTheTable) {
  std::set<std::string> tried;
  for (auto& row : rowsOf(SOURCE_FOLDER "/streams.txt")) {
    SCOPED_TRACE(row.words);
    auto words = shellWords(row.words);
    auto leaf = leafOf(words);
    if (leaf == nullptr) {
      ADD_FAILURE() << "not a command";
      continue;
    }
    tried.insert(leaf->name);
    if (row.out.starts_with("not: ")) continue;
    freshNode();
    prepare(*leaf);
    if (leaf->talksToNodes()) words = with(words, {"-n", "10.0.0.2"});
    bool streams = leaf->command->interrupt != Interrupt::kIsFailure;
    auto found = run(words, streams ? 30 : 400);
    EXPECT_EQ(found.status, row.status) << found.err.substr(0, 500);
    expectStream("stdout", row.out, found.out);
    expectStream("stderr", row.err, found.err);
  }
  for (auto& leaf : leaves) EXPECT_TRUE(tried.contains(leaf.name)) << leaf.name << " has no row";
}

// Catches: a change that ends without a word on a terminal.
TEST_F(Streams, ASilentSuccessHasALineOnATerminal) {
  for (auto& row : rowsOf(SOURCE_FOLDER "/streams.txt")) {
    SCOPED_TRACE(row.words);
    auto words = shellWords(row.words);
    auto leaf = leafOf(words);
    if (leaf == nullptr || row.out.starts_with("not: ")) continue;
    freshNode();
    prepare(*leaf);
    if (leaf->talksToNodes()) words = with(words, {"-n", "10.0.0.2"});
    bool streams = leaf->command->interrupt != Interrupt::kIsFailure;
    bool silent = row.out == "-" && row.err == "-";
    c.test.console.terminal = silent;
    auto found = run(words, streams ? 30 : 400);
    c.test.console.terminal = false;
    if (!silent) continue;
    EXPECT_EQ(found.status, 0) << found.err.substr(0, 500);
    EXPECT_EQ(found.out, "");
    EXPECT_TRUE(found.err.ends_with("\n")) << found.err;
  }
}

}  // namespace
}  // namespace talos::talosctl
