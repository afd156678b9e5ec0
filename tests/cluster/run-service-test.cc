// `make run SERVICE=…`: each daemon alone on a node, as a developer runs it.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <regex>
#include <set>

#include "tests/harness/process.h"

namespace talos {
namespace {

using harness::Background;
using harness::run;

constexpr double kUp = 60;  // s, beside other tests

struct Home {
  std::string folder;
  Home() {
    char name[] = "/tmp/run-service-XXXXXX";
    folder = mkdtemp(name);
  }
  ~Home() { std::filesystem::remove_all(folder); }
  std::vector<std::string> command(const std::string& service,
                                   const std::string& variable = "A=") const {
    auto programs = std::filesystem::path(getenv("TALOSCTL")).parent_path().string();
    return {"env",   "HOME=" + folder, variable, TALOS_SOURCE_DIR "/tests/run-service.sh",
            service, TALOS_SOURCE_DIR, programs};
  }
};

std::string match(const std::string& text, const char* pattern) {
  std::smatch found;
  return std::regex_search(text, found, std::regex(pattern)) ? found[1].str() : "";
}

std::set<std::string> servicesOf(const std::string& endpoint) {
  auto text = run({getenv("TALOSCTL"), "-e", endpoint, "services", "-o", "json"}).out;
  std::set<std::string> ids;
  static const std::regex id("\"id\": \"([a-z0-9-]+)\"");
  for (std::sregex_iterator it(text.begin(), text.end(), id), end; it != end; ++it) {
    ids.insert((*it)[1]);
  }
  return ids;
}

struct Row {
  const char* service;
  std::set<std::string> runs;  // besides machined
  const char* socket;
  std::vector<std::string> call;
  const char* answer;
};

// Catches: a daemon that cannot start without another daemon; a daemon that runs beside it and
// hides its mistakes; a node that stays when the developer has gone.
TEST(RunService, EachAlone) {
  const std::vector<std::string> version = {"node", "machine", "version"};
  const Row rows[] = {
      {"networkd", {"networkd"}, "networkd", {"network", "interfaces"}, "\"10.91.0.2/24\""},
      {"apid", {"apid", "networkd"}, "machined", version, "\"tag\""},
      {"trustd", {"trustd", "networkd"}, "machined", version, "\"tag\""},
      {"etcd-supervisor",
       {"etcd-supervisor", "networkd"},
       "etcd-supervisor",
       {"outlook", "{kind: leaves}"},
       "\"members\": []"},
      {"vipd",
       {"vipd", "etcd", "etcd-supervisor", "networkd"},
       "machined",
       {"store", "get", "{kind: {type: vipspec}, id: 10.91.0.50}"},
       "\"10.91.0.50\""},
      {"kubed", {"kubed", "networkd"}, "machined", version, "\"tag\""},
      {"logd", {"logd", "networkd"}, "machined", version, "\"tag\""},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(row.service);
    Home home;
    Background running(home.command(row.service));
    ASSERT_TRUE(running.waitFor(
        [](auto&, auto& err) { return err.find("its network") != std::string::npos; }, kUp))
        << running.err();
    EXPECT_NE(match(running.err(), "runs alone, on a node in a container: process ([0-9]+)"), "")
        << running.err();
    auto endpoint = match(running.err(), "-e (unix:[^ ]+)");
    auto expected = row.runs;
    expected.insert("machined");
    EXPECT_EQ(expected, servicesOf(endpoint));

    auto folder = endpoint.substr(5, endpoint.rfind('/') - 5);
    std::vector<std::string> call = {getenv("TALOSCTL"), "debug", "call",
                                     folder + "/" + row.socket + ".sock"};
    call.insert(call.end(), row.call.begin(), row.call.end());
    auto called = run(call);
    EXPECT_NE(called.out.find(row.answer), std::string::npos) << called.out << called.err;
    EXPECT_EQ(0,
              run({getenv("TALOSCTL"), "-e", endpoint, "debug", "log-level", row.service, "debug"})
                  .status);

    auto stack = run({getenv("TALOSCTL"), "-e", endpoint, "debug", "stack", row.service}).out;
    EXPECT_NE(stack.find("Stack:\n  0x"), std::string::npos) << stack;
    if (row.service == std::string("etcd-supervisor")) {
      EXPECT_NE(stack.find(": waiting: waiting for a cluster: run talosctl bootstrap"),
                std::string::npos)
          << stack;
    }

    EXPECT_EQ(130, running.interrupt(kUp)) << running.err();
    EXPECT_FALSE(std::filesystem::exists(home.folder + "/.talos/clusters/run-" + row.service));
  }
}

// Catches: a mistake that is noticed after half of the node was made.
TEST(RunService, SaysWhatIsWrong) {
  Home home;
  auto refused = [&](const char* service, const char* variable, const std::string& why) {
    auto result = run(home.command(service, variable));
    EXPECT_EQ(1, result.status);
    EXPECT_NE(result.err.find(why), std::string::npos) << result.err;
    EXPECT_FALSE(std::filesystem::exists(home.folder + "/.talos"));
  };
  refused("", "A=", "name the service: make run SERVICE=networkd");
  refused("etcd", "A=", "\"etcd\" cannot run alone; use one of networkd, ");
  refused("networkd", "DEBUG=valgrind", "valgrind cannot start them");
  refused("networkd", "DEBUG=dbx", "use gdb, strace or perf");
  refused("networkd", "CONFIG=/nowhere.yaml", "CONFIG=/nowhere.yaml cannot be read");
}

// Catches: a connection to another program's socket; a call whose meaning is unknown.
TEST(DebugCall, SaysWhatIsWrong) {
  auto refused = [&](std::vector<std::string> words, const std::string& why) {
    words.insert(words.begin(), {getenv("TALOSCTL"), "debug", "call"});
    auto result = run(words);
    EXPECT_EQ(1, result.status);
    EXPECT_NE(result.err.find(why), std::string::npos) << result.err;
  };
  refused({"apid"}, "\"apid\" is not a socket of ours; use one of machined, networkd, ");
  refused({"/run/x.sock", "ready"}, "is not a socket of ours");
  refused({"/nowhere/networkd.sock", "ready"}, "/nowhere/networkd.sock: No such file or directory");
  auto listed = run({getenv("TALOSCTL"), "debug", "call", "networkd"});
  EXPECT_EQ(0, listed.status);
  EXPECT_NE(listed.out.find("ready() -> ()\n"), std::string::npos) << listed.out;
}

}  // namespace
}  // namespace talos
