// Every program of a running node dies of a fault and says where: the report exists by the time
// that the service runs again, its stack is read with the names of `make symbols`, and it outlives
// a reboot. The log level of each program is raised and lowered while it runs.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <filesystem>
#include <regex>
#include <system_error>

#include "backupd/test-s3-server.h"
#include "tests/harness/cluster.h"
#include "tests/harness/network-server.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::lines;
namespace fs = std::filesystem;

struct Program {
  std::string service, function;  // of its main loop
};
const Program kPrograms[] = {
    {"apid", "talos::apid::run()"},
    {"trustd", "talos::trustd::run()"},
    {"networkd", "talos::networkd::run(bool, bool)"},
    {"etcd-supervisor", "talos::supervisor::run()"},
    {"vipd", "talos::vipd::run()"},
    {"logd", "talos::logd::run()"},
    {"kubed", "talos::kubed::run(bool)"},
    {"login1", "talos::login1::run()"},
    {"manifestd", "talos::manifestd::run()"},
    {"backupd", "talos::backupd::run()"},
    {"probed", "talos::probed::run()"},
    {"registryd", "talos::registryd::run()"},
    {"machined", "talos::machined::ServiceRunner::signal(int)"},
};

// A folder with an empty cache of images, and with a certificate for backups.
class Prepared {
 public:
  Prepared() {
    char path[] = "/tmp/crashes-XXXXXX";
    KJ_REQUIRE(mkdtemp(path) != nullptr, "cannot make a folder in /tmp");
    folder = path;
    fs::create_directories(cache() + "/manifests");
    auto made = harness::run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                              "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder + "/key.pem",
                              "-out", folder + "/certificate.pem", "-subj", "/CN=backup"});
    KJ_REQUIRE(made.status == 0, "openssl has failed", made.err.c_str());
  }
  ~Prepared() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  Prepared(const Prepared&) = delete;

  std::string cache() const { return folder + "/cache"; }
  std::string certificate() const {
    return harness::run({"base64", "-w0", folder + "/certificate.pem"}).out;
  }

 private:
  std::string folder;
};

constexpr uint16_t kStorePort = 9000;

// Returns the patch that makes the programs run that a config without these keys does not need.
// Only the store of backups exists, and only in a test that starts it.
std::string workForAllPrograms(const Prepared& prepared) {
  return "machine: {logging: {destinations: [{endpoint: \"tcp://10.5.0.1:5140\"}]}}\n"
         "cluster:\n"
         "  extraManifests: [\"http://10.5.0.1:5141/a.yaml\"]\n"
         "  etcd: {backup: {endpoint: \"http://10.5.0.1:" +
         std::to_string(kStorePort) +
         "\", bucket: backups, prefix: c1/, region: eu-central-1, accessKey: AKIATEST, secretKey: "
         "wJalrXUtnFEMI/K7MDENG, every: 10s, keep: 3, encryptTo: " +
         prepared.certificate() +
         "}}\n"
         "---\n"
         "apiVersion: v1alpha1\n"
         "kind: TCPProbeConfig\n"
         "name: first\n"
         "endpoint: 10.5.0.1:5142\n";
}

class RunningNode {
 public:
  RunningNode()
      : cluster("crashes", {"--provisioner=container", "--no-uplink", "--workers", "0",
                            "--bootstrap", "--use-vip", "--image-cache", prepared.cache(),
                            "--config-patch", workForAllPrograms(prepared)}) {}

  Prepared prepared;
  Cluster cluster;

  std::string ok(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"-n", Cluster::kFirst, "--timeout", "10s"});
    return cluster.ok(std::move(arguments));
  }
  std::string tried(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"-n", Cluster::kFirst, "--timeout", "10s"});
    return cluster.talosctl(std::move(arguments)).out;
  }
  bool until(std::function<bool()> condition, double seconds = 60) const {
    return eventually(condition, seconds, 0.1);
  }
  int pidOf(const std::string& service) const {  // 0: it does not run
    std::smatch match;
    auto shown = tried({"service", service, "-o", "json"});
    static const std::regex pid("\"pid\": *(\\d+)");
    return std::regex_search(shown, match, pid) ? std::stoi(match[1]) : 0;
  }
  bool runs(const std::string& service) const { return pidOf(service) != 0; }
  // Ids of the reports of a service.
  std::vector<std::string> reports(const std::string& service) const {
    std::vector<std::string> ids;
    std::regex row("\\S+ +(" + service + "-[0-9TZ-]+) .*");
    for (auto& line : lines(tried({"crashes"}))) {
      std::smatch match;
      if (std::regex_match(line, match, row)) ids.push_back(match[1]);
    }
    return ids;
  }
};

std::string stackOf(const std::string& report) {
  auto from = report.find("Stack:\n"), to = report.find("\nLog:");
  return from == std::string::npos || to == std::string::npos ? "" : report.substr(from, to - from);
}

// Catches: a program whose confinement, or whose missing line in main(), leaves no report; a stack
// that begins and ends in the handler; a table of names from another build; a report that a reboot
// loses, or that `diagnose` does not see.
TEST(Crashes, EveryProgramExplainsItsOwn) {
  RunningNode node;
  auto folder = harness::madeSymbols(TALOS_SOURCE_DIR);
  for (auto& program : kPrograms) {
    SCOPED_TRACE(program.service);
    ASSERT_TRUE(node.until([&] { return node.runs(program.service); })) << node.tried({"services"});
    ASSERT_EQ(0u, node.reports(program.service).size());
    node.ok({"service", program.service, "kill", "--signal", "SIGSEGV"});
    ASSERT_TRUE(node.until([&] { return node.reports(program.service).size() == 1; }));
    ASSERT_TRUE(node.until([&] { return node.runs(program.service); })) << node.tried({"services"});
    auto id = node.reports(program.service)[0];
    auto report = node.ok({"crashes", id, "--symbols", folder});
    EXPECT_TRUE(contains(stackOf(report), program.function)) << report;
    EXPECT_TRUE(contains(stackOf(report), "_start+0x")) << report;
    EXPECT_TRUE(contains(report, "Cause:     SIGSEGV, ")) << report;
    EXPECT_TRUE(contains(report, "/usr/bin/" + program.service + "\n")) << report;
    EXPECT_FALSE(contains(report, "Missing:")) << report;
    auto shown = node.ok({"service", program.service});
    EXPECT_TRUE(contains(shown, "killed by signal 11 (Segmentation fault); crash report " + id))
        << shown;
  }
  auto diagnosis = node.tried({"diagnose"});
  EXPECT_TRUE(contains(diagnosis, "the program of the service vipd has crashed")) << diagnosis;

  // A service keeps only its three newest reports.
  for (int i = 0; i < 4; ++i) {
    auto before = node.reports("trustd");
    node.ok({"service", "trustd", "kill", "--signal", "SIGABRT"});
    ASSERT_TRUE(
        node.until([&] { return node.reports("trustd") != before && node.runs("trustd"); }));
  }
  auto trustd = node.reports("trustd");
  EXPECT_EQ(3u, trustd.size());

  auto vipd = node.reports("vipd");
  auto bootId = node.ok({"get", "bootrecords"});
  node.ok({"reboot", "--wait=false"});
  ASSERT_TRUE(node.until([&] {
    auto now = node.tried({"get", "bootrecords"});
    return now != "" && lines(now).size() > lines(bootId).size() && node.cluster.booted();
  }));
  EXPECT_EQ(trustd, node.reports("trustd"));
  EXPECT_EQ(vipd, node.reports("vipd"));
  EXPECT_TRUE(
      contains(stackOf(node.ok({"crashes", vipd[0], "--symbols", folder})), "talos::vipd::run()"));
}

// A program that was killed has work to do that its predecessor did not do.
struct KilledWork {
  std::string service;
  std::string patch;  // of the config, while the program does not run; empty without one
  std::vector<std::string> look;
  std::string expected;  // in the output, when the work is done
};
const KilledWork kKilledWork[] = {
    {"probed",
     "apiVersion: v1alpha1\nkind: TCPProbeConfig\nname: later\nendpoint: 10.5.0.2:50000\n",
     {"get", "probes", "tcp:10.5.0.2:50000", "-o", "yaml"},
     "success: true"},
    {"manifestd",
     "cluster: {inlineManifests: [{name: later, contents: \"apiVersion: v1\\nkind: ConfigMap\\n"
     "metadata: {name: later}\"}]}\n",
     {"get", "manifests", "--namespace", "extras"},
     "later"},
    {"registryd", "", {"get", "imagecacheconfig", "-o", "yaml"}, "status: ready"},
    {"registryd", "", {"service", "registryd"}, "HEALTH   OK"}};

using StoredObjects = std::map<std::string, std::string>;

// Catches: a program that is started again and waits for a change that came while it did not run;
// one that a kill at its start keeps from its work; a series of backups that ends with backupd.
TEST(Crashes, AProgramThatWasKilledDoesTheWorkThatIsLeft) {
  RunningNode node;
  // Kills the program, and its successors as soon as they run.
  auto killAgainAndAgain = [&](const std::string& service) {
    for (int kills = 0; kills < 3; ++kills) {
      int pid = 0;
      ASSERT_TRUE(node.until([&] {
        pid = node.cluster.program("crashes-master-1", service);
        return pid != 0 && kill(pid, SIGKILL) == 0;
      })) << node.tried({"services"});
      ASSERT_TRUE(
          node.until([&] { return node.cluster.program("crashes-master-1", service) != pid; }));
    }
  };
  for (auto& work : kKilledWork) {
    SCOPED_TRACE(work.service);
    ASSERT_TRUE(node.until([&] { return node.runs(work.service); })) << node.tried({"services"});
    EXPECT_TRUE(work.patch.empty() || !contains(node.tried(work.look), work.expected));
    killAgainAndAgain(work.service);
    if (HasFatalFailure()) return;
    if (!work.patch.empty()) node.ok({"patch", "mc", "--mode=no-reboot", "-p", work.patch});
    EXPECT_TRUE(node.until([&] { return contains(node.tried(work.look), work.expected); }))
        << node.tried(work.look) << node.tried({"services"});
  }

  harness::NetworkServer<backupd::S3Server, StoredObjects> store(
      node.cluster, {.port = kStorePort}, [](backupd::S3Server& server) { return server.objects; });
  auto newest = [&] {
    auto all = store.seen();
    return all.empty() ? std::string() : all.rbegin()->first;
  };
  ASSERT_TRUE(node.until([&] { return !newest().empty(); })) << node.tried({"services"});
  auto before = newest();
  killAgainAndAgain("backupd");
  EXPECT_TRUE(node.until([&] { return newest() > before; }))
      << node.tried({"get", "etcdbackupstatus", "-o", "yaml"});
}

// Catches: a level that needs a restart, reaches another service, or stays after a reboot or is
// lost in a crash of the service or of machined.
TEST(LogLevels, AreRaisedAndLoweredWhileAServiceRuns) {
  RunningNode node;
  auto level = [&](const std::string& service) {
    auto rows = lines(node.ok({"debug", "log-level", service}));
    std::smatch match;
    std::regex row("\\S+ +\\S+ +(\\S+) *");
    return rows.size() > 1 && std::regex_match(rows[1], match, row) ? match[1].str() : "";
  };
  auto debugLines = [&](const std::string& service) {
    size_t count = 0;
    for (auto& line : lines(node.ok({"logs", service}))) count += contains(line, "level=debug");
    return count;
  };
  for (auto& program : kPrograms) {
    if (program.service == "machined") continue;
    SCOPED_TRACE(program.service);
    int pid = 0;
    ASSERT_TRUE(node.until([&] { return (pid = node.pidOf(program.service)) != 0; }))
        << node.tried({"services"});
    EXPECT_EQ("info", level(program.service));
    EXPECT_EQ(0u, debugLines(program.service));
    node.ok({"debug", "log-level", program.service, "debug"});
    EXPECT_EQ("debug", level(program.service));
    EXPECT_EQ(pid, node.pidOf(program.service));
    // The program now logs every step of its start.
    node.ok({"service", program.service, "kill", "--signal", "SIGKILL"});
    ASSERT_TRUE(node.until([&] {
      auto now = node.pidOf(program.service);
      return now != 0 && now != pid;
    }));
    EXPECT_TRUE(node.until([&] { return debugLines(program.service) > 0; }));
    EXPECT_EQ("debug", level(program.service));
    node.ok({"debug", "log-level", program.service, "info"});
    EXPECT_EQ("info", level(program.service));
  }
  // A call of the API is one, and the level counts for it at once.
  node.ok({"debug", "log-level", "apid", "debug"});
  auto before = debugLines("apid");
  EXPECT_TRUE(node.until([&] { return debugLines("apid") > before; }));
  EXPECT_TRUE(
      contains(node.ok({"logs", "apid"}), "message=\"call ended\" method=Services.setLogLevel"));
  // The signal comes a moment after the answer.
  auto brain = node.pidOf("machined");
  node.ok({"service", "machined", "kill", "--signal", "SIGKILL"});
  ASSERT_TRUE(node.until([&] {
    auto now = node.pidOf("machined");
    return now != 0 && now != brain;
  }));
  EXPECT_TRUE(contains(node.ok({"debug", "log-level", "apid"}), "debug"));
  node.ok({"debug", "log-level", "apid", "error"});
  auto quiet = lines(node.ok({"logs", "apid"})).size();
  node.ok({"version"});
  EXPECT_EQ(quiet, lines(node.ok({"logs", "apid"})).size());
  auto refused =
      node.cluster.talosctl({"-n", Cluster::kFirst, "debug", "log-level", "cri", "debug"});
  EXPECT_NE(0, refused.status);
  EXPECT_TRUE(contains(refused.err, "not a program of this system")) << refused.err;
}

// Catches: a stack dump that ends the program or that its confinement forbids; a slow call that is
// not shown; a stopped program, and a command that waits for it.
TEST(Stacks, SayWhatAProgramIsAbout) {
  RunningNode node;
  auto folder = harness::madeSymbols(TALOS_SOURCE_DIR);
  auto look = [&](const std::string& service) {
    return node.tried({"debug", "stack", service, "--symbols", folder});
  };
  for (auto& program : kPrograms) {
    SCOPED_TRACE(program.service);
    ASSERT_TRUE(node.until([&] { return node.runs(program.service); })) << node.tried({"services"});
    auto pid = node.pidOf(program.service);
    std::string stack;  // a program that has just started has no stack yet
    EXPECT_TRUE(node.until([&] {
      stack = look(program.service);
      return contains(stack, "_start+0x");
    })) << stack;
    if (program.service != "machined") EXPECT_TRUE(contains(stack, program.function)) << stack;
    EXPECT_EQ(pid, node.pidOf(program.service));
    EXPECT_EQ(0u, node.reports(program.service).size());
  }
  {
    harness::Background following(
        node.cluster.command({"-n", Cluster::kFirst, "logs", "-f", "machined"}));
    EXPECT_TRUE(node.until([&] { return contains(look("apid"), ": call Logs.read of "); }))
        << look("apid");
  }
  EXPECT_TRUE(node.until([&] { return !contains(look("apid"), ": call Logs.read of "); }));

  auto stopped = node.cluster.program("crashes-master-1", "vipd");
  ASSERT_NE(0, stopped);
  kill(stopped, SIGSTOP);
  auto refused = node.cluster.talosctl({"-n", Cluster::kFirst, "debug", "stack", "vipd"});
  kill(stopped, SIGCONT);
  EXPECT_EQ(1, refused.status);
  EXPECT_TRUE(contains(refused.err, "vipd did not write its stack within 2s: it is stopped"))
      << refused.err;
  auto foreign = node.cluster.talosctl({"-n", Cluster::kFirst, "debug", "stack", "cri"});
  EXPECT_TRUE(contains(foreign.err, "not a program of this system")) << foreign.err;
  auto profile = node.ok({"debug", "profile", "apid", "--length", "1s", "--symbols", folder});
  EXPECT_TRUE(contains(profile, "apid;_start;")) << profile;
}

#ifdef __x86_64__
// Makes a program loop forever at its present place: the next instruction jumps to itself.
void makeItHang(int pid) {
  auto check = [](long result, const char* what) {
    if (result == -1 && errno != 0) throw std::system_error(errno, std::generic_category(), what);
  };
  check(ptrace(PTRACE_ATTACH, pid, nullptr, nullptr), "attach");
  waitpid(pid, nullptr, __WALL);
  user_regs_struct registers{};
  check(ptrace(PTRACE_GETREGS, pid, nullptr, &registers), "registers");
  constexpr long kJumpToItself = 0xfeeb;  // jmp .
  auto at = reinterpret_cast<void*>(registers.rip);
  errno = 0;
  auto word = ptrace(PTRACE_PEEKTEXT, pid, at, nullptr);
  check(word, "peek");
  check(ptrace(PTRACE_POKETEXT, pid, at, (word & ~0xffffL) | kJumpToItself), "poke");
  check(ptrace(PTRACE_DETACH, pid, nullptr, nullptr), "detach");
}

// Catches: a machined that hangs, is restarted, and leaves no record of where it was, or for which
// client it worked.
TEST(Hangs, MachinedExplainsItsOwn) {
  RunningNode node;
  auto folder = harness::madeSymbols(TALOS_SOURCE_DIR);
  harness::Background following(
      node.cluster.command({"-n", Cluster::kFirst, "logs", "-f", "machined"}));
  ASSERT_TRUE(node.until([&] {
    return contains(node.tried({"debug", "stack", "machined"}), ": call Logs.read, request ");
  }));
  auto brain = node.cluster.program("crashes-master-1", "machined");
  ASSERT_NE(0, brain);
  makeItHang(brain);
  ASSERT_TRUE(node.until([&] { return node.reports("machined").size() == 1; }));
  auto report = node.ok({"crashes", node.reports("machined")[0], "--symbols", folder});
  EXPECT_TRUE(contains(report, "Cause:     SIGABRT, sent by process 1")) << report;
  EXPECT_TRUE(contains(report, "  call Logs.read, request ")) << report;
  EXPECT_TRUE(contains(stackOf(report), "_start+0x")) << report;
  EXPECT_TRUE(contains(report, "[stack]")) << report;
  EXPECT_FALSE(contains(report, "Missing:")) << report;
}
#endif

// The id of a request in the lines of a log.
std::string requestIn(const std::string& log, const std::string& about) {
  std::smatch match;
  static const std::regex id("request=(\\S+)");
  for (auto& line : lines(log)) {
    if (contains(line, about) && std::regex_search(line, match, id)) return match[1];
  }
  return "";
}

// Catches: a program that serves a part of a request and does not log its id, or logs another id;
// an id that is lost between two nodes; a failure that does not point its user to the log.
TEST(Requests, HaveOneIdInAllPrograms) {
  Cluster cluster("requests", {"--provisioner=container", "--no-uplink", "--masters", "2",
                               "--workers", "0", "--bootstrap"});
  auto log = [&](const std::string& node, const std::string& service) {
    return cluster.talosctl({"-n", node, "logs", service}).out;
  };
  // Reached by way of the first node.
  auto forfeit = cluster.talosctl({"-e", cluster.endpoint(), "-n", "10.5.0.3", "--timeout", "20s",
                                   "etcd", "forfeit-leadership"});
  auto id = requestIn(log("10.5.0.3", "audit"), "Etcd.forfeitLeadership");
  ASSERT_NE("", id) << forfeit.err << log("10.5.0.3", "audit");
  for (auto service : {"machined", "etcd-supervisor"}) {
    auto found = log("10.5.0.3", service);
    EXPECT_TRUE(contains(
        found, "message=\"call began\" method=Etcd.forfeitLeadership request=" + id + "\n"))
        << service << found;
  }
  // The next command has another id.
  cluster.talosctl({"-n", "10.5.0.3", "service", "trustd", "restart"});
  auto other = requestIn(log("10.5.0.3", "audit"), "Services.restart");
  EXPECT_NE("", other);
  EXPECT_NE(id, other);

  // networkd does not answer: the command says where to look, and the log has the request.
  auto networkd = cluster.program("requests-master-2", "networkd");
  ASSERT_NE(0, networkd);
  kill(networkd, SIGSTOP);
  auto silent = cluster.talosctl({"-n", "10.5.0.3", "--timeout", "6s", "interfaces"});
  EXPECT_EQ(1, silent.status);
  std::smatch match;
  static const std::regex hint("see \"talosctl logs machined --grep (\\S+)\"");
  ASSERT_TRUE(std::regex_search(silent.err, match, hint)) << silent.err;
  EXPECT_TRUE(eventually(
      [&] {
        return contains(log("10.5.0.3", "machined"), "method=Network.interfaces request=" +
                                                         match[1].str() + " result=Cancelled");
      },
      10, 0.1))
      << log("10.5.0.3", "machined");
  kill(networkd, SIGCONT);
}

}  // namespace
}  // namespace talos
