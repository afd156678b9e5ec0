// Whole runs of the commands for developers who look for a bug in a node's programs: crashes,
// debug.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zlib.h>

#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Debugging : public ClusterTest {
  ~Debugging() noexcept override {}
  machined::TestTree tree;

  // Writes a symbol table with one function into a folder, under its name.
  kj::String putTable(kj::StringPtr buildId) {
    auto folder = tree.at("symbols");
    makeDirectories(folder);
    auto file = kj::str(folder, "/", buildId, ".symbols.gz");
    auto out = gzopen(file.cStr(), "wb");
    auto text = kj::str("talos-symbols 1 ", buildId, "\n401000 talos::apid::run()\n402000 \n");
    KJ_REQUIRE(gzwrite(out, text.begin(), text.size()) == static_cast<int>(text.size()));
    KJ_REQUIRE(gzclose(out) == Z_OK);
    return file;
  }
  template <typename... Words>
  int show(Words&&... more) {
    return c.run({"-n", "10.0.0.2", "crashes", kj::StringPtr(more)...});
  }
};

constexpr kj::StringPtr kReport = "apid-20210301T120000Z"_kj;

// Catches: names of another build; a table that is not found by its build id; a damaged table that
// yields no names without a message; names that JSON lacks.
TEST_F(Debugging, ACrashIsReadWithTheNamesOfItsBuild) {
  auto file = putTable("0a16"), other = putTable("ffff");
  auto folder = tree.at("symbols");
  EXPECT_EQ(show(kReport, "--symbols", folder), 0);
  EXPECT_THAT(out(), HasSubstr("  0x401010 talos::apid::run()+0x10\n"));
  EXPECT_EQ(show(kReport, "--symbols", file), 0);
  EXPECT_THAT(out(), HasSubstr("talos::apid::run()+0x10"));
  EXPECT_EQ(show(kReport, "--symbols", folder, "-o", "json"), 0);
  EXPECT_THAT(out(), HasSubstr("\"0x401010 talos::apid::run()+0x10\""));

  EXPECT_EQ(show(kReport, "--symbols", other), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("  0x401010\n"), Not(HasSubstr("run()"))));
  EXPECT_THAT(err(), HasSubstr("are of build ffff"));
  EXPECT_EQ(show(kReport, "--symbols", tree.at("none")), 1);
  EXPECT_THAT(err(), HasSubstr("there is no file"));
  writeFileAtomically(file, "damaged"_kj, 0644);
  EXPECT_EQ(show(kReport, "--symbols", folder), 1);
  EXPECT_THAT(err(), HasSubstr("not compressed with gzip"));
  EXPECT_EQ(show("--symbols", folder), 1);
  EXPECT_THAT(err(), HasSubstr("needs the name of a report"));
}

TEST_F(Debugging, AnUnknownCrashIsAnError) {
  EXPECT_EQ(show("vipd-20210301T120000Z"), 1);
  EXPECT_EQ(out(), "");
  EXPECT_THAT(err(), HasSubstr("no node has a crash report \"vipd-20210301T120000Z\""));
}

// Catches: a level sent with the wrong number, and a level that is refused after it was set on some
// nodes.
TEST_F(Debugging, ALevelIsSetByItsName) {
  auto set = [&](kj::StringPtr service, kj::StringPtr level) {
    return c.run({"-n", "10.0.0.2", "debug", "log-level", service, level});
  };
  EXPECT_EQ(set("apid", "debug"), 0);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(node("10.0.0.2").lastLevel, "apid 1"_kj);
  EXPECT_EQ(set("vipd", "error"), 0);
  EXPECT_EQ(node("10.0.0.2").lastLevel, "vipd 3"_kj);
  EXPECT_EQ(set("vipd", "DEBUG"), 1);
  EXPECT_THAT(err(), HasSubstr("use debug, info, warning or error"));
  EXPECT_EQ(node("10.0.0.2").lastLevel, "vipd 3"_kj);
  EXPECT_EQ(set("cri", "debug"), 1);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "debug", "log-level", "nobody"}), 1);
  EXPECT_THAT(err(), HasSubstr("service \"nobody\" is not registered"));
}

// Catches: a switch that is set the wrong way, or by an invalid word.
TEST_F(Debugging, CoresAreKeptWhenTheyAreWanted) {
  auto set = [&](kj::StringPtr service, kj::StringPtr setting) {
    return c.run({"-n", "10.0.0.2", "debug", "cores", service, setting});
  };
  EXPECT_EQ(set("apid", "on"), 0);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(node("10.0.0.2").lastCores, "apid on"_kj);
  EXPECT_EQ(set("vipd", "off"), 0);
  EXPECT_EQ(node("10.0.0.2").lastCores, "vipd off"_kj);
  EXPECT_EQ(set("vipd", "yes"), 1);
  EXPECT_THAT(err(), HasSubstr("use on or off"));
  EXPECT_EQ(set("cri", "on"), 1);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "debug", "cores"}), 0);
  EXPECT_THAT(out(), HasSubstr("CORES"));
}

// Catches: a core that is saved compressed or readable for others; one of two nodes; a flag without
// a report that lists all reports.
TEST_F(Debugging, ACoreIsSavedAndRemoved) {
  auto file = tree.at("apid.core");
  EXPECT_EQ(show(kReport, "--core", file), 0);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(readFile(file), "core"_kj);
  struct stat info;
  ASSERT_EQ(0, stat(file.cStr(), &info));
  EXPECT_EQ(0600u, info.st_mode & 07777);
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "crashes", kReport, "--core", file}), 1);
  EXPECT_EQ(show("vipd-20210301T120000Z", "--core", file), 1);
  EXPECT_THAT(err(), HasSubstr("there is no crash report \"vipd-20210301T120000Z\""));
  EXPECT_EQ(show("--core", file), 1);
  EXPECT_THAT(err(), HasSubstr("--core needs the name of a report"));
  EXPECT_EQ(show(kReport, "--core", file, "--remove"), 1);
  EXPECT_EQ(node("10.0.0.2").removedCrash, ""_kj);
  EXPECT_EQ(show(kReport, "--remove"), 0);
  EXPECT_EQ(node("10.0.0.2").removedCrash, kReport);
  EXPECT_EQ(show("--remove"), 1);
}

// Catches: addresses without names where names exist, a wait without its time.
TEST_F(Debugging, AStackHasNamesAndWaits) {
  putTable("0a16");
  auto look = [&](kj::StringPtr service, auto&&... more) {
    return c.run({"-n", "10.0.0.2", "debug", "stack", service, kj::StringPtr(more)...});
  };
  EXPECT_EQ(look("apid", "--symbols", tree.at("symbols")), 0);
  EXPECT_EQ(out(),
            "Node:      10.0.0.2\nService:   apid\nProgram:   apid, build id 0a16\nProcess:   42\n"
            "Under way:\n  since 1500ms: call Logs.read of admin\n"
            "Stack:\n  0x401010 talos::apid::run()+0x10\n  0x300000\n");
  EXPECT_EQ(look("apid", "-o", "json", "--symbols", tree.at("symbols")), 0);
  EXPECT_THAT(out(), HasSubstr("\"0x401010 talos::apid::run()+0x10\""));
  EXPECT_EQ(look("cri"), 1);
  EXPECT_THAT(err(), HasSubstr("no stack"));
}

// Catches: a stack upside down, or an offset that splits one function into two.
TEST_F(Debugging, AProfileIsFolded) {
  putTable("0a16");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "debug", "profile", "apid", "--length", "1s", "--symbols",
                   tree.at("symbols")}),
            0);
  EXPECT_THAT(out(), testing::StartsWith("apid;0x300000;talos::apid::run() "));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "debug", "profile", "apid", "--length", "11m"}), 1);
  EXPECT_THAT(err(), HasSubstr("--length must be from 1s to 10m"));
}

// Catches: a socket of one node that is called as several nodes, or that needs a talosconfig.
TEST_F(Debugging, ASocketIsOneNode) {
  auto refused = [&](kj::StringPtr endpoints, kj::StringPtr nodes) {
    EXPECT_EQ(c.run({"-e", endpoints, "-n", nodes, "version", "--talosconfig", "/nowhere"}), 1);
    return err();
  };
  EXPECT_THAT(refused("unix:/nowhere/machined.sock", "a"),
              HasSubstr("/nowhere/machined.sock: No such file or directory"));
  EXPECT_THAT(refused("unix:/a,10.0.0.2", "a"), HasSubstr("name no other endpoint"));
  EXPECT_THAT(refused("unix:/a", "a,b"), HasSubstr("--nodes names 2"));
}

}  // namespace
}  // namespace talos::talosctl
