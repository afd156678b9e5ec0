// The dashboard over a cluster of five nodes with a shared address during faults of the cluster,
// once beside it and once at the end of a line on which an answer takes 300 ms: faults are shown
// within a bounded time, and keys are answered all the while.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <regex>
#include <string>

#include "tests/cluster/terminal.h"
#include "tests/harness/filled-disk.h"

namespace talos {
namespace {

using harness::Background;
using harness::Cluster;
using harness::FilledDisk;
using harness::run;
using harness::slurp;

constexpr uint16_t kPort = 50000;
constexpr size_t kPiece = 65536;

sockaddr_in socketAddress(const std::string& address) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(kPort);
  KJ_REQUIRE(inet_pton(AF_INET, address.c_str(), &name.sin_addr) == 1, address.c_str());
  return name;
}

class Line final : private kj::TaskSet::ErrorHandler {
 public:
  Line(kj::AsyncIoContext& io, sockaddr_in to, kj::Duration delay)
      : io(io), to(to), delay(delay), connections(*this) {}

  kj::Promise<void> accept(kj::Own<kj::ConnectionReceiver> receiver) {
    for (;;) connections.add(forward(co_await receiver->accept()));
  }

 private:
  kj::AsyncIoContext& io;
  sockaddr_in to;
  kj::Duration delay;
  kj::TaskSet connections;

  // A connection that one side has ended: both are gone.
  void taskFailed(kj::Exception&&) override {}

  kj::Promise<void> forward(kj::Own<kj::AsyncIoStream> client) {
    auto node = co_await io.provider->getNetwork().getSockaddr(&to, sizeof to)->connect();
    co_await kj::joinPromisesFailFast(kj::arr(carry(*client, *node), carry(*node, *client)));
  }

  kj::Promise<void> carry(kj::AsyncIoStream& in, kj::AsyncIoStream& out) {
    auto& timer = io.provider->getTimer();
    kj::Promise<void> written = kj::READY_NOW;
    for (;;) {
      auto piece = kj::heapArray<kj::byte>(kPiece);
      auto size = co_await in.tryRead(piece.begin(), 1, piece.size());
      auto due = timer.now() + delay;
      written = write(kj::mv(written), due, out, kj::heapArray(piece.slice(0, size)))
                    .eagerlyEvaluate(nullptr);
      if (size == 0) break;
    }
    co_await kj::mv(written);
  }

  // Nothing: the end.
  kj::Promise<void> write(kj::Promise<void> before, kj::TimePoint due, kj::AsyncIoStream& out,
                          kj::Array<kj::byte> piece) {
    co_await kj::mv(before);
    co_await io.provider->getTimer().atTime(due);
    if (piece.size() == 0) {
      out.shutdownWrite();
    } else {
      co_await out.write(piece.begin(), piece.size());
    }
  }
};

[[noreturn]] void serve(int listening, sockaddr_in to, kj::Duration delay) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    auto io = kj::setupAsyncIo();
    Line line(io, to, delay);
    line.accept(io.lowLevelProvider->wrapListenSocketFd(listening)).wait(io.waitScope);
  } catch (...) {  // the test sees that no program listens
  }
  _exit(1);
}

// A slow line to a node, as to the other side of the world: a process that forwards TCP
// connections, and delays every byte of both directions. It loses nothing and does not limit the
// bandwidth.
class DelayedLine {
 public:
  // Forwards from port 50000 of one address of this host to port 50000 of another.
  DelayedLine(const std::string& from, const std::string& to, unsigned milliseconds);
  ~DelayedLine();
  DelayedLine(const DelayedLine&) = delete;

 private:
  pid_t pid;
};

DelayedLine::DelayedLine(const std::string& from, const std::string& to, unsigned milliseconds) {
  auto name = socketAddress(from), target = socketAddress(to);
  int raw, one = 1;
  KJ_SYSCALL(raw = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  kj::AutoCloseFd listening(raw);
  KJ_SYSCALL(setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
  KJ_SYSCALL(bind(listening, reinterpret_cast<sockaddr*>(&name), sizeof name), from.c_str());
  KJ_SYSCALL(listen(listening, 64));
  KJ_SYSCALL(pid = fork());
  if (pid == 0) serve(listening, target, milliseconds * kj::MILLISECONDS);
}

DelayedLine::~DelayedLine() {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

constexpr unsigned kEachWay = 150;                                    // ms
constexpr double kKey = 2, kSlowKey = 5, kNews = 30, kUpgrade = 600;  // s
constexpr const char *kFirst = Cluster::kFirst, *kWorker = "10.5.0.5";
constexpr const char* kNodes[] = {"soak-master-1", "soak-master-2", "soak-master-3",
                                  "soak-worker-1", "soak-worker-2"};

std::string resultOf(const std::vector<std::string>& words) {
  auto result = run(words, 300);
  EXPECT_EQ(result.status, 0) << words[0] << ": " << result.out << result.err;
  return result.out;
}

// Returns a pattern of a stage in the node's line.
std::string stageOf(const std::string& node, const std::string& stage) {
  return node + " [^\n]*" + stage;
}

struct DashboardSoak : testing::Test {
  Cluster cluster{"soak",
                  {"--provisioner", "container", "--masters", "3", "--workers", "2", "--use-vip"}};
  std::string line;  // the address of the delayed one

  DashboardSoak() {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    cluster.ok({"bootstrap", "-n", kFirst}, 180);
    auto number = unsigned(getpid());
    line = "127.77." + std::to_string(number / 250 % 250) + "." + std::to_string(number % 250 + 1);
    cluster.ok({"-n", kFirst, "patch", "mc", "--mode=no-reboot", "-p",
                "machine: {certSANs: [" + line + "]}"});
  }

  void picture(const std::string& of, const Terminal& terminal) const {
    printf("-- %s\n%s\n", of.c_str(), terminal.screen().c_str());
  }
  std::string archive() const {
    auto path = cluster.folder() + "/installer.tar";
    resultOf({"env", "VERSION=v0.200.0", std::string(getenv("ROOTFS")) + "/installer.sh",
              getenv("IMAGE"), path});
    return path;
  }
  static size_t residentKiB(pid_t pid) {
    std::smatch match;
    auto status = slurp("/proc/" + std::to_string(pid) + "/status");
    if (!std::regex_search(status, match, std::regex("VmRSS:\\s+(\\d+) kB"))) return 0;
    return std::stoul(match[1]);
  }
  // Returns the pid of a terminal's dashboard, which is the only one with this argument.
  pid_t dashboard(const std::string& interval) const {
    for (auto pid : harness::processesWith(interval)) {
      if (harness::contains(slurp("/proc/" + std::to_string(pid) + "/comm"), "talosctl"))
        return pid;
    }
    return 0;
  }

  void losesNodes(const Terminal& terminal) const;
  void upgradesANode(const Terminal& terminal) const;
  void fillsADisk(const Terminal& terminal) const;
  void pressesKeys(const Terminal& terminal) const;
  void hearsNews(const Terminal& terminal) const;
};

// A worker, and the control-plane node that has the shared address.
void DashboardSoak::losesNodes(const Terminal& terminal) const {
  cluster.ok({"cluster", "node", "kill", "soak-worker-2"});
  terminal.shows(stageOf("soak-worker-2", "silent \\d+s"));
  terminal.shows(stageOf("soak-worker-1", "running"));
  picture("a worker is lost", terminal);
  cluster.ok({"cluster", "node", "start", "soak-worker-2"});
  terminal.shows(stageOf("soak-worker-2", "running"));

  terminal.press("3");
  auto holder = terminal.shows("shared address [0-9.]+: (soak-master-\\d)").group;
  cluster.ok({"cluster", "node", "kill", holder});
  auto other = std::string("soak-master-[^") + holder.back() + "]";
  terminal.shows("\n *shared address [0-9.]+: " + other + "[^\n]*\n\n");  // it alone
  picture("the holder of the shared address is lost", terminal);
  terminal.press("1");
  terminal.shows(stageOf(holder, "silent \\d+s"));
  terminal.shows(other + " [^\n]*leader");
  cluster.ok({"cluster", "node", "start", holder});
  terminal.shows(stageOf(holder, "running"));
  terminal.shows(stageOf(holder, "(?:member|leader)"));
}

void DashboardSoak::upgradesANode(const Terminal& terminal) const {
  Background upgrade(
      cluster.command({"-n", kWorker, "upgrade", "--image", archive(), "--preserve"}));
  terminal.press("1");
  auto stage = terminal.shows(stageOf("soak-worker-1", "(upgrade: \\w+)"));
  picture("an upgrade is under way", terminal);
  printf("%s after %.1f s\n", stage.group.c_str(), stage.seconds);
  terminal.press("4");
  terminal.shows(" Upgrades [^\n]*\\s+soak-worker-1: \\w+ [^\n]*v0\\.200\\.0");
  picture("the cluster's page of an upgrade", terminal);
  terminal.press("1");
  EXPECT_EQ(upgrade.finish(kUpgrade), 0) << upgrade.out() << upgrade.err();
  terminal.shows(stageOf("soak-worker-1", "running"));
  terminal.press("4");
  EXPECT_TRUE(harness::eventually(
      [&] { return !harness::contains(terminal.screen(), " Upgrades "); }, kShows, 0.3))
      << terminal.screen();
  auto status = cluster.ok({"-n", kWorker, "get", "upgradestatus", "-o", "yaml"});
  EXPECT_TRUE(harness::contains(status, "v0.200.0")) << status;
  terminal.press("1");
}

void DashboardSoak::fillsADisk(const Terminal& terminal) const {
  auto problem = std::string("soak-worker-2 +") + FilledDisk::kMountedOn + " is nearly full";
  {
    FilledDisk disk(cluster.folder(), cluster.process("soak-worker-2"));
    terminal.shows(problem);
    terminal.shows(stageOf("soak-worker-2", "█ +(?:9\\d|100) %"));
    picture("a disk is full", terminal);
  }
  EXPECT_TRUE(harness::eventually(
      [&] { return !std::regex_search(terminal.screen(), std::regex(problem)); }, kShows, 0.3))
      << terminal.screen();
}

// Each to another page, and none waits for an answer of a node.
void DashboardSoak::pressesKeys(const Terminal& terminal) const {
  const std::pair<const char*, const char*> pages[] = {
      {"2", "\\[2 Node\\]"},       {"3", "\\[3 Network\\]"}, {"4", "\\[4 Cluster\\]"},
      {"?", "ends the dashboard"}, {"x", "\\[4 Cluster\\]"}, {"1", "\\[1 Overview\\]"}};
  std::vector<double> seconds;
  for (int round = 0; round < 5; ++round) {
    for (auto& [key, page] : pages) {
      terminal.press(key);
      seconds.push_back(terminal.shows(page).seconds);
    }
  }
  std::sort(seconds.begin(), seconds.end());
  auto usual = seconds[seconds.size() / 2];
  printf("keys: %.2f s, the slowest %.2f s\n", usual, seconds.back());
  EXPECT_LT(usual, kKey);
  EXPECT_LT(seconds.back(), kSlowKey);
}

// The process of a service that is restarted, on the page of its node.
void DashboardSoak::hearsNews(const Terminal& terminal) const {
  terminal.press("1");
  terminal.shows("\\[1 Overview\\]");
  terminal.press("Home");
  terminal.press("Enter");
  terminal.shows("soak-master-1  10");
  const std::string row = "kubed +Running +- +";  // then its process
  auto pid = terminal.shows(row + "(\\d+) ").group;
  std::vector<double> seconds;
  for (int i = 1; i <= 6; ++i) {
    cluster.ok({"-n", kFirst, "service", "kubed", "restart"});
    auto news = terminal.shows(row + "(?!" + pid + " )(\\d+) ");
    pid = news.group;
    seconds.push_back(news.seconds);
    printf("news after %.1f s\n", seconds.back());
  }
  auto middle = seconds.begin() + ptrdiff_t(seconds.size() / 2);
  auto early = *std::max_element(seconds.begin(), middle),
       late = *std::max_element(middle, seconds.end());
  EXPECT_LT(std::max(early, late), kNews);
  EXPECT_LT(late, 2 * early + 5);  // the restart itself takes longer on a busy host
  picture("a node", terminal);
  terminal.press("Escape");
  terminal.shows("\\[1 Overview\\]");
}

}  // namespace

// Catches: a trouble that is not seen, or stays when it is over; a key that waits for a node; news
// that come later each time; a dashboard that grows.
TEST_F(DashboardSoak, SeesWhatHappens) {
  Terminal near(cluster, "near", "200", "50", {"dashboard", "-d", "1001ms"});
  for (auto node : kNodes) near.shows(stageOf(node, "running"));
  for (auto node : {"soak-master-1", "soak-master-2", "soak-master-3"}) {
    near.shows(stageOf(node, "(?:member|leader)"));
  }
  picture("at rest", near);
  pressesKeys(near);
  auto before = residentKiB(dashboard("1001ms"));
  losesNodes(near);
  upgradesANode(near);
  fillsADisk(near);
  pressesKeys(near);
  hearsNews(near);
  auto after = residentKiB(dashboard("1001ms"));
  printf("dashboard: %zu KiB, %zu KiB at the end\n", before, after);
  EXPECT_GT(before, 0u);
  EXPECT_LT(after, 2 * before + 20'000);
  near.press("q");
  near.shows("ended with 0");
}

// Catches: questions one after the other, each of which costs the time of the line; keys that wait
// for it; news that come later each time.
TEST_F(DashboardSoak, SeesWhatHappensAtTheEndOfASlowLine) {
  DelayedLine delayed(line, cluster.endpoint(kFirst), kEachWay);
  Terminal far(cluster, "far", "200", "50", {"-e", line, "dashboard", "-d", "2001ms"});
  auto first = far.shows(stageOf("soak-master-1", "running")).seconds;
  printf("the first node is shown after %.1f s\n", first);
  EXPECT_GT(first, 4 * kEachWay / 1000.0) << "the line is not slow";
  for (auto node : kNodes) far.shows(stageOf(node, "running"));
  pressesKeys(far);
  hearsNews(far);
  cluster.ok({"cluster", "node", "kill", "soak-worker-2"});
  printf("a lost node is shown after %.1f s\n",
         far.shows(stageOf("soak-worker-2", "silent \\d+s")).seconds);
  pressesKeys(far);
  hearsNews(far);
  cluster.ok({"cluster", "node", "start", "soak-worker-2"});
  far.shows(stageOf("soak-worker-2", "running"));
  picture("at the end of a slow line", far);
  far.press("q");
  far.shows("ended with 0");
}

}  // namespace talos
