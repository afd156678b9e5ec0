// Tests reports about a cluster in this process: their content, and content that they must not
// have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "talosctl/commands/test-cluster.h"
#include "talosctl/report/crash-dump.h"
#include "talosctl/report/node-report.h"
#include "talosctl/report/support-bundle.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

kj::String lastOf(kj::StringPtr text, size_t count) {
  return kj::heapString(lastLines(text, count));
}

TEST(LastLines, WholeLinesFromTheEnd) {
  EXPECT_STREQ(lastOf("a\nb\nc\n", 2).cStr(), "b\nc\n");
  EXPECT_STREQ(lastOf("a\nb\nc", 2).cStr(), "b\nc");
  EXPECT_STREQ(lastOf("a\nb\n", 5).cStr(), "a\nb\n");
  EXPECT_STREQ(lastOf("", 5).cStr(), "");
  EXPECT_STREQ(lastOf("\n", 1).cStr(), "\n");
}

// Commands of this test that replace the program's.
Bundle* bundled;
kj::Promise<int> runBundle(Invocation& call) {
  co_await writeSupportBundle(call, Access::of(call), *bundled, call.arguments[0]);
  co_return 0;
}
kj::Promise<int> runDump(Invocation& call) {
  kj::Vector<DumpedNode> nodes;
  for (auto& node : bundled->nodes) {
    auto console = bundled->files.size() > 0 ? kj::str(bundled->files[0].path) : kj::str();
    nodes.add(DumpedNode{kj::str(node.node), kj::mv(console)});
  }
  co_await writeCrashDump(call, Access::of(call), nodes,
                          [&](kj::StringPtr text) { call.out(text); });
  co_return 0;
}

struct Reports : public ::testing::Test {
  TestCluster c;
  Bundle bundle;
  ~Reports() noexcept override { bundled = nullptr; }
  Reports() {
    bundled = &bundle;
    auto& one = c.root->add("bundle", "");
    one.least = one.most = 1;
    one.run = runBundle;
    c.root->add("dump", "").run = runDump;
    node("10.0.0.2", "one");
    node("10.0.0.3", "two");
    config().document = kj::str("machine:\n  token: verysecret\n  type: worker\n");
  }
  FakeConfig& config() { return KJ_ASSERT_NONNULL(c.nodes.find("10.0.0.2")).config; }
  void node(kj::StringPtr address, kj::StringPtr folder) {
    FakeNode fresh;
    fresh.serviceIds.add(kj::str("apid"));
    for (unsigned i = 0; i < 300; ++i) fresh.logLines.add(kj::str("line ", i));
    c.nodes.insert(kj::str(address), kj::mv(fresh));
    bundle.nodes.add(BundledNode{kj::str(address), kj::str(folder)});
  }
  kj::String in(kj::StringPtr name) { return kj::str(c.folder, "/", name); }
  std::string file(kj::StringPtr name) {
    return tryReadFile(in(kj::str("out/", name))).orDefault(kj::str("(no file)")).cStr();
  }
  std::vector<std::string> names() {
    std::vector<std::string> all;
    for (auto& entry : std::filesystem::directory_iterator(c.folder.cStr())) {
      all.push_back(entry.path().filename());
    }
    return all;
  }
  void pack() {
    auto path = in("support.zip");
    ASSERT_EQ(c.run({"bundle", path}), 0) << c.test.console.takeErr().cStr();
    auto unpack = kj::str("mkdir ", in("out"), " && cd ", in("out"), " && cmake -E tar xf ", path);
    ASSERT_EQ(system(unpack.cStr()), 0);
  }
};

// Catches: a secret in a file that users send to others, and a missing part.
TEST_F(Reports, AnArchiveHasEverythingButSecrets) {
  pack();
  EXPECT_THAT(file("one/logs/apid.log"), HasSubstr("line 299\n"));
  EXPECT_THAT(file("one/version.txt"), HasSubstr("v0.9.0"));
  EXPECT_THAT(file("one/events.txt"), HasSubstr("PhaseEvent"));
  EXPECT_THAT(file("one/resources/Services.v1alpha1.talos.dev.yaml"), HasSubstr("healthy: true"));
  EXPECT_THAT(file("one/config.yaml"),
              AllOf(HasSubstr("type: worker"), HasSubstr("***"), Not(HasSubstr("verysecret"))));
  EXPECT_THAT(file("summary.txt"),
              AllOf(HasSubstr("one (10.0.0.2): "), HasSubstr("two (10.0.0.3)")));
  // The id of a log comes from the node.
  EXPECT_THAT(file("errors.txt"), HasSubstr("one/logs/___etcd.log: "));
  EXPECT_THAT(file("one/resources/MachineConfigs.config.talos.dev.txt"),
              AllOf(HasSubstr("v1alpha1"), Not(HasSubstr("verysecret"))));
  EXPECT_EQ(file("one/resources/MachineConfigs.config.talos.dev.yaml"), "(no file)");
  struct stat s;
  ASSERT_EQ(stat(in("support.zip").cStr(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
}

// Catches: a node that is down and prevents the report of the others, or the report of its own
// console.
TEST_F(Reports, ANodeThatIsDownHasItsConsoleAndNoMore) {
  KJ_ASSERT_NONNULL(c.nodes.find("10.0.0.3")).off = true;
  writeFileAtomically(in("console"), "Kernel panic\n"_kj, 0600);
  writeFileAtomically(in("config"), "machine:\n  token: verysecret\n"_kj, 0600);
  bundle.files.add(BundledFile{kj::str("two/console.log"), in("console")});
  bundle.files.add(BundledFile{kj::str("two/local-config.yaml"), in("config"), true});
  bundle.files.add(BundledFile{kj::str("two/missing"), in("missing")});
  pack();
  EXPECT_THAT(c.test.console.takeErr().cStr(), HasSubstr("WARNING: two/the node: "));
  EXPECT_EQ(file("two/console.log"), "Kernel panic\n");
  EXPECT_THAT(file("two/local-config.yaml"), AllOf(HasSubstr("***"), Not(HasSubstr("verysecret"))));
  EXPECT_THAT(file("one/logs/apid.log"), HasSubstr("line 299\n"));
  EXPECT_THAT(file("summary.txt"), HasSubstr("two (10.0.0.3): does not answer"));
  EXPECT_THAT(file("errors.txt"), HasSubstr("two/missing: "));
}

// Catches: an earlier archive that is overwritten, and an incomplete archive that looks complete.
TEST_F(Reports, NothingIsReplaced) {
  writeFileAtomically(in("support.zip"), "mine"_kj, 0600);
  EXPECT_EQ(c.run({"bundle", in("support.zip")}), 1);
  EXPECT_THAT(c.test.console.takeErr().cStr(), HasSubstr("exists; remove it, or use --output"));
  EXPECT_STREQ(readFile(in("support.zip")).cStr(), "mine");
  EXPECT_THAT(names(), Not(Contains(HasSubstr(".part"))));
}

// Catches: two runs that write to one file, a later run that overwrites the earlier run's archive.
TEST_F(Reports, OfTwoAtOnceOneFails) {
  auto path = in("support.zip");
  auto umaskBefore = umask(0277);  // must have no effect on the archive
  KJ_DEFER(umask(umaskBefore));
  auto one = c.start({"bundle", path}), other = c.start({"bundle", path});
  EXPECT_EQ(c.finish(kj::mv(one)) + c.finish(kj::mv(other)), 1);
  EXPECT_THAT(c.test.console.takeErr().cStr(), HasSubstr("exists; remove it, or use --output"));
  EXPECT_THAT(names(), Contains("support.zip"));
  EXPECT_THAT(names(), Not(Contains(HasSubstr(".part"))));
  struct stat s;
  ASSERT_EQ(stat(path.cStr(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
}

TEST_F(Reports, ACrashDumpHasTheLastLines) {
  KJ_ASSERT_NONNULL(c.nodes.find("10.0.0.3")).hangs = true;
  writeFileAtomically(in("console"), "Kernel panic\n"_kj, 0600);
  bundle.files.add(BundledFile{kj::str("console"), in("console")});
  EXPECT_EQ(c.run({"dump"}), 0);
  auto text = c.test.console.takeOut();
  EXPECT_THAT(text.cStr(), HasSubstr("\n10.0.0.2\n========\n\n> apid\n"));
  EXPECT_THAT(text.cStr(),
              HasSubstr("\n10.0.0.3\n========\n\nno answer within 10s\n> console\nKernel panic\n"));
}

// Catches: a console that is too large to be read; a console that is a folder, whose own error
// hides why the node does not come up and stops the report of the following nodes.
TEST_F(Reports, ACrashDumpReadsConsolesOfAnySize) {
  for (auto address : {"10.0.0.2"_kj, "10.0.0.3"_kj}) {
    KJ_ASSERT_NONNULL(c.nodes.find(address)).off = true;
  }
  writeFileAtomically(in("console"), ""_kj, 0600);
  ASSERT_EQ(truncate(in("console").cStr(), 65 << 20), 0);
  std::ofstream(in("console").cStr(), std::ios::app) << "\nKernel panic\n";
  bundle.files.add(BundledFile{kj::str("console"), in("console")});
  EXPECT_EQ(c.run({"dump"}), 0);
  auto text = c.test.console.takeOut();
  EXPECT_THAT(text.cStr(), HasSubstr("\n10.0.0.3\n"));
  EXPECT_TRUE(text.endsWith("\nKernel panic\n\n")) << text.slice(text.size() - 40).cStr();
  bundle.files[0].path = in("");
  EXPECT_EQ(c.run({"dump"}), 0);
  EXPECT_THAT(c.test.console.takeOut().cStr(),
              AllOf(HasSubstr("\n10.0.0.3\n"), HasSubstr("> console\n")));
}

}  // namespace
}  // namespace talos::talosctl
