// Three control-plane nodes in virtual machines with a shared address: a fourth host reaches the
// API by it, etcd has three voters, and whatever happens to the nodes, never do two of them answer
// a client's question for it. What the kernels of the machines have cannot be looked at from here:
// a client that asks a hundred times a second is the witness.
//
//   VIP_FAULTS   how many; each kind comes first once (default: each kind once)
//   VIP_SEED     which ones, and when
//
// A machine that is paused is the exception, and its own kind: it goes on where it was, so it may
// answer for what was left of the address' lifetime (docs/vip.md). How long it did is told, and may
// not be longer than that.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <random>
#include <regex>

#include "tests/cluster/vip-segment.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;

using Way = VipSegment::Way;

constexpr double kPatience = harness::kBoots;  // s, until all three are as before
constexpr double kLifetime = 2.3;              // s, of the address: the default lease, and a margin
constexpr double kQuestion = 0.01;             // s, between two questions of the client

class Machines : public VipSegment {
 public:
  Machines() : VipSegment("vipvms", "tap", {"--memory", "640", "--no-uplink"}) {}

  int settled(double deadlineSeconds) const {
    int holder = -1;
    eventually(
        [&] {
          for (unsigned i = 0; i < kCount && holder < 0; ++i) holder = settledBy(i);
          return holder >= 0;
        },
        deadlineSeconds);
    return holder;
  }
  // By its API: nothing else leads into a machine. `service`: "vipd" or "etcd"
  void kill(unsigned node, const std::string& service) const {
    auto sent = at(node, {"service", service, "kill", "--signal", "SIGKILL"}, 60);
    EXPECT_EQ(0, sent.status) << sent.err;
  }
  // In order; a service that is suspended nobody could let go on.
  Heal stop(unsigned node, const std::string& service) const {
    act(node, service, "stop");
    return [=, this] { act(node, service, "start"); };
  }

 private:
  void act(unsigned node, const std::string& service, const char* what) const {
    auto done = at(node, {"service", service, what}, 60);
    EXPECT_EQ(0, done.status) << done.err;
  }
};

struct Kind {
  const char* name;
  Heal (*strike)(Machines&, unsigned victim);
  bool leader = false;  // of etcd is the victim
  bool paused = false;
};

const Heal kNothing = [] {};

const Kind kKinds[] = {
    {"vipd killed",
     [](Machines& nodes, unsigned i) {
       nodes.kill(i, "vipd");
       return kNothing;
     }},
    {"vipd stopped", [](Machines& nodes, unsigned i) { return nodes.stop(i, "vipd"); }},
    {"etcd killed",
     [](Machines& nodes, unsigned i) {
       nodes.kill(i, "etcd");
       return kNothing;
     }},
    {"etcd stopped", [](Machines& nodes, unsigned i) { return nodes.stop(i, "etcd"); }},
    {"etcd's leader killed",
     [](Machines& nodes, unsigned i) {
       nodes.kill(i, "etcd");
       return kNothing;
     },
     true},
    {"vipd stopped, another node's etcd killed",
     [](Machines& nodes, unsigned i) {
       auto heal = nodes.stop(i, "vipd");
       nodes.kill((i + 1) % Machines::kCount, "etcd");
       return heal;
     }},
    {"two nodes' etcd stopped",
     [](Machines& nodes, unsigned i) {
       return both(nodes.stop(i, "etcd"), nodes.stop((i + 1) % Machines::kCount, "etcd"));
     }},
    {"machine lost", [](Machines& nodes, unsigned i) { return nodes.lose(i); }},
    {"machine of etcd's leader lost", [](Machines& nodes, unsigned i) { return nodes.lose(i); },
     true},
    {"port down", [](Machines& nodes, unsigned i) { return nodes.unplug(i); }},
    {"cut off", [](Machines& nodes, unsigned i) { return nodes.cutOff(i, Way::kBoth); }},
    {"cut off, hears", [](Machines& nodes, unsigned i) { return nodes.cutOff(i, Way::kFromNode); }},
    {"cut off, is heard",
     [](Machines& nodes, unsigned i) { return nodes.cutOff(i, Way::kToNode); }},
    {"machine paused", [](Machines& nodes, unsigned i) { return nodes.freeze(i); }, false, true},
};

double setting(const char* variable, double otherwise) {
  auto text = getenv(variable);
  return text == nullptr ? otherwise : atof(text);
}

class MachineFaults {
 public:
  MachineFaults(Machines& nodes, unsigned seed) : nodes(nodes), random(seed), seed(seed) {}

  void run(unsigned count) {
    std::vector<const Kind*> order;
    for (auto& kind : kKinds) order.push_back(&kind);
    std::shuffle(order.begin(), order.end(), random);
    for (unsigned n = 0; n < count && !testing::Test::HasFailure(); ++n) {
      one(n < order.size() ? *order[n] : kKinds[below(std::size(kKinds))]);
    }
    report();
  }

 private:
  Machines& nodes;
  std::mt19937 random;
  unsigned seed, done = 0, afterPause = 0;
  std::map<std::string, std::vector<int64_t>> away;  // by kind, in ms

  unsigned below(unsigned n) { return random() % n; }
  // The holder is worth most.
  unsigned victim(const Kind& kind, int holder) {
    if (kind.leader) {
      int leader = nodes.leader();
      if (leader >= 0) return unsigned(leader);
    }
    return below(3) > 0 ? unsigned(holder) : below(Machines::kCount);
  }
  std::chrono::milliseconds duration() {
    switch (below(3)) {
      case 0:
        return std::chrono::milliseconds(20 + below(400));
      case 1:
        return std::chrono::milliseconds(1000 + below(2500));
      default:
        return std::chrono::milliseconds(6000 + below(6000));
    }
  }
  void one(const Kind& kind) {
    int holder = nodes.settled(kPatience);
    ASSERT_GE(holder, 0) << "the address is not back\n" << nodes.said();
    auto whom = victim(kind, holder);
    auto lasts = duration();
    auto what =
        kj::str("fault ", done + 1, " (seed ", seed, "): ", kind.name, " at node ", whom + 1,
                holder == int(whom) ? ", the holder," : "", " for ", lasts.count(), " ms");
    SCOPED_TRACE(what.cStr());
    nodes.client->takeLongest();
    auto twice = nodes.client->twice.load();
    auto heal = kind.strike(nodes, whom);
    std::this_thread::sleep_for(lasts);
    heal();
    EXPECT_GE(nodes.settled(kPatience), 0) << "the address is not back\n" << nodes.said();
    ++done;
    auto gap = nodes.client->takeLongest();
    auto both = nodes.client->twice.load() - twice;
    fprintf(stderr, "%s: no answer for %d ms, two answers to %u questions\n", what.cStr(), int(gap),
            both);
    away[kj::str(kind.name, holder == int(whom) ? ", of the holder" : "").cStr()].push_back(gap);
    if (kind.paused) {
      afterPause = std::max(afterPause, both);
      EXPECT_LE(both * kQuestion, kLifetime) << nodes.said();
    } else {
      EXPECT_EQ(0u, both) << "two answered one question\n" << nodes.said();
    }
  }
  void report() {
    fprintf(stderr,
            "%u faults of machines, seed %u, %u questions; two answers only to one machine that "
            "was paused, for at most %u ms\n",
            done, seed, nodes.client->asked.load(), unsigned(afterPause * kQuestion * 1000));
    for (auto& [name, times] : away) {
      std::sort(times.begin(), times.end());
      fprintf(stderr, "  %-55s %4zu times, no answer for %5d ms (p50), %5d (longest)\n",
              name.c_str(), times.size(), int(times[times.size() / 2]), int(times.back()));
    }
  }
};

// SNTP at the client's address, with a clock of its own choice.
class WrongClock {
 public:
  WrongClock(int place, int64_t aheadSeconds) : ahead(aheadSeconds) {
    inside(place, [&] { KJ_SYSCALL(fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)); });
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(123);
    timeval patience{0, 100'000};
    KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
    KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)));
    thread = std::jthread([this](std::stop_token over) {
      while (!over.stop_requested()) answer();
    });
  }
  ~WrongClock() {
    thread.request_stop();
    thread.join();
    close(fd);
  }
  std::atomic<unsigned> answered{0};

 private:
  int64_t ahead;
  int fd;
  std::jthread thread;

  // RFC 4330 §4 and §6.
  void answer() {
    kj::byte packet[48];
    sockaddr_in from{};
    socklen_t size = sizeof(from);
    if (recvfrom(fd, packet, sizeof(packet), 0, reinterpret_cast<sockaddr*>(&from), &size) != 48) {
      return;
    }
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint32_t stamp[2] = {htonl(uint32_t(now.tv_sec + 2'208'988'800 + ahead)),
                         htonl(uint32_t(double(now.tv_nsec) * 4.294967296))};
    memcpy(packet + 24, packet + 40, 8);
    for (auto offset : {16, 32, 40}) memcpy(packet + offset, stamp, 8);
    memset(packet + 4, 0, 8);
    packet[0] = 4 << 3 | 4;
    packet[1] = 1;
    packet[3] = 0xec;  // 2^-20 s
    memcpy(packet + 12, "LOCL", 4);
    sendto(fd, packet, sizeof(packet), 0, reinterpret_cast<sockaddr*>(&from), size);
    ++answered;
  }
};

struct Scenario {
  Machines nodes;

  // From a host of the segment that is no node: by the shared address, its certificate checked.
  void answersAFourthHost() {
    auto there = inside(nodes.clientPlace, [&] {
      return harness::run({harness::talosctlPath(), "--talosconfig", nodes.cluster.talosconfig(),
                           "-e", Machines::kVip, "-n", Machines::kVip, "version"},
                          40);
    });
    EXPECT_EQ(0, there.status) << there.err;
    auto members = inside(nodes.clientPlace, [&] {
      return harness::run({harness::talosctlPath(), "--talosconfig", nodes.cluster.talosconfig(),
                           "-e", Machines::kVip, "-n", nodes.address(1), "etcd", "members"},
                          40);
    });
    EXPECT_EQ(0, members.status) << members.err;
    for (unsigned i = 0; i < Machines::kCount; ++i) {
      EXPECT_TRUE(contains(members.out, nodes.nodeName(i))) << members.out;
    }
    EXPECT_FALSE(std::regex_search(members.out, std::regex(":2379 +true"))) << members.out;
  }
  // The others keep running, and what the node says names its clock.
  void aClockThatIsAYearOff() {
    constexpr unsigned kWrong = 2;
    WrongClock clock(nodes.clientPlace, 366 * 86400);
    auto patched = nodes.at(
        kWrong,
        {"patch", "mc", "--immediate", "--patch",
         std::string(R"([{"op": "replace", "path": "/machine/time/servers", "value": [")") +
             Machines::kClient + R"("]}])"},
        80);
    ASSERT_EQ(0, patched.status) << patched.err;
    ASSERT_TRUE(eventually([&] { return clock.answered > 0; }, kPatience));
    harness::Result said;
    auto names = [&] {
      said = nodes.at(kWrong, {"time"});
      return contains(said.err, "certificate is not yet valid: it is valid from ") &&
             contains(said.err, "and the clock here shows ");
    };
    EXPECT_TRUE(eventually(names, kPatience)) << said.out << said.err;
    auto members = nodes.at(0, {"etcd", "members"}, 30);
    size_t good = 0;
    for (auto& line : harness::lines(members.out)) good += line.ends_with(" OK");
    EXPECT_EQ(Machines::kCount, good) << members.out << members.err;
    answersAFourthHost();
  }
};

// Catches: two machines that answer for the address, one that keeps it without etcd, an address
// that does not come back, and certificates without it.
TEST(VipMachines, OneAnswersWhateverHappens) {
  Scenario scenario;
  auto& nodes = scenario.nodes;
  auto seed = unsigned(setting("VIP_SEED", double(std::random_device{}() % 1'000'000)));
  ASSERT_GE(nodes.settled(kPatience), 0) << nodes.said();
  scenario.answersAFourthHost();
  MachineFaults(nodes, seed).run(unsigned(setting("VIP_FAULTS", double(std::size(kKinds)))));
  scenario.answersAFourthHost();
  scenario.aClockThatIsAYearOff();
}

}  // namespace
}  // namespace talos
