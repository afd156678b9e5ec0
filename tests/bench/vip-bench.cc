// The shared address of three hosts by vipd, with the real etcd, and beside it by keepalived in the
// same network namespaces: how long it takes until another host has the address, how long a client
// that connects a hundred times a second makes no connection, and how long two hosts have it.
//
//   vip-bench RUNS      prints a line of JSON for each figure; VIPD and CONFINE name our programs
//
// Where etcd and keepalived are installed. The client is on the bridge, the hosts have one cable
// each.
//
// link: machined-resources common-etcd common-netlink harness GTest::gtest
#include <netinet/in.h>

#include <algorithm>
#include <regex>

#include "tests/bench/arguments.h"
#include "tests/bench/memory.h"
#include "tests/harness/process.h"
#include "tests/vip/connect-prober.h"
#include "tests/vip/vip-hosts.h"

namespace talos::bench {
namespace {

constexpr uint16_t kMetricsPort = 2381;
constexpr auto kRest = 20 * kj::SECONDS;

// Observations of one kind of event.
class Row {
 public:
  void add(double movedMs, double darkMs, unsigned failed) {
    moved.push_back(movedMs);
    dark.push_back(darkMs);
    this->failed.push_back(failed);
  }
  void print(kj::StringPtr who, kj::StringPtr what) {
    printf(
        "{\"who\":\"%s\",\"what\":\"%s\",\"runs\":%zu,\"movedMs\":%s,\"darkMs\":%s,\"failed\":%s}"
        "\n",
        who.cStr(), what.cStr(), moved.size(), summary(moved).cStr(), summary(dark).cStr(),
        summary(failed).cStr());
    fflush(stdout);
  }

 private:
  std::vector<double> moved, dark, failed;

  static kj::String summary(std::vector<double>& all) {
    std::sort(all.begin(), all.end());
    char text[96];
    snprintf(text, sizeof text, "{\"p50\":%.1f,\"longest\":%.1f}", all[all.size() / 2], all.back());
    return kj::str(text);
  }
};

// Shared by both: the hosts, the observer of the address, and the events. `Peer` starts and ends
// the program of a host.
template <typename Peer>
class Bench {
 public:
  Bench(Hosts& hosts, kj::StringPtr who, Peer& peer) : hosts(hosts), who(who), peer(peer) {}

  void run(unsigned runs) {
    watch = hosts.watch();
    ConnectProber client(Ip::require(kVip));
    for (auto& host : hosts.hosts) peer.start(*host);
    settle();
    hosts.until("a connection is made", [&] { return client.made > 0; });
    each(
        "killed", runs, client, [&](Host& host) { peer.kill(host); },
        [&](Host& host) { peer.start(host); });
    each(
        "handed over", runs, client, [&](Host& host) { peer.leave(host); },
        [&](Host& host) { peer.start(host); });
    each(
        "link down", runs, client, [&](Host& host) { hosts.plug(host, false); },
        [&](Host& host) { hosts.plug(host, true); });
    each(
        "lost", runs, client,
        [&](Host& host) {
          hosts.plug(host, false);
          watch->lose(host.number - 1);
          peer.lose(host);
        },
        [&](Host& host) {
          hosts.takeAway(host);
          watch->put(host.number - 1, host.place);
          hosts.plug(host, true);
          peer.comeBack(host);
        });
    watch->end();
    printf("{\"who\":\"%s\",\"what\":\"two holders\",\"looks\":%u,\"of\":%u,\"ms\":%.0f}\n",
           who.cStr(), watch->overlaps.load(), watch->looks.load(), watch->overlapMs());
  }

 private:
  Hosts& hosts;
  kj::StringPtr who;
  Peer& peer;
  kj::Own<HolderWatch> watch;

  Host& settle() {
    int now = -1;
    hosts.until("one host has the address, and the others are ready", [&] {
      now = watch->onlyHolder();
      return now >= 0 && peer.ready(*hosts.hosts[now]);
    });
    return *hosts.hosts[now];
  }
  template <typename Strike, typename Mend>
  void each(kj::StringPtr what, unsigned runs, ConnectProber& client, Strike&& strike,
            Mend&& mend) {
    Row row;
    for (unsigned i = 0; i < runs; ++i) {
      auto& holder = settle();
      if (what == "lost") peer.makeItHarder(holder);
      client.takeLongest();
      auto& clock = kj::systemPreciseMonotonicClock();
      auto began = clock.now();
      strike(holder);
      unsigned own = 1u << (holder.number - 1);
      hosts.until("another host has the address", [&] { return (watch->holders & ~own) != 0; });
      auto moved = double((clock.now() - began) / kj::NANOSECONDS) / 1e6;
      auto made = client.made.load();
      hosts.until("connections are made", [&] { return client.made > made + 10; });
      auto end = clock.now();
      hosts.until("nothing is open", [&] { return client.decided(end); });
      row.add(moved, client.takeLongest(), client.failed(began, end));
      mend(holder);
    }
    settle();
    row.print(who, what);
  }
};

// Prints the memory of the processes of one host.
void printMemory(kj::StringPtr who, std::initializer_list<pid_t> pids) {
  uint64_t resident = 0, own = 0;
  for (auto pid : pids) {
    resident += memoryKiB(pid, "Rss");
    own += memoryKiB(pid, "Pss_Anon");
  }
  printf("{\"who\":\"%s\",\"what\":\"memory\",\"residentKiB\":%llu,\"ownKiB\":%llu}\n", who.cStr(),
         static_cast<unsigned long long>(resident), static_cast<unsigned long long>(own));
}

class Vipd {
 public:
  explicit Vipd(Hosts& hosts) : hosts(hosts) {}
  void start(Host& host) {
    hosts.until("the one before has ended",
                [&] { return leaving == 0 || waitpid(leaving, nullptr, WNOHANG) == leaving; });
    leaving = 0;
    hosts.start(host);
  }
  void kill(Host& host) { hosts.end(host.vipd, SIGKILL); }
  void leave(Host& host) {
    leaving = std::exchange(host.vipd, 0);
    ::kill(leaving, SIGTERM);
  }
  void lose(Host& host) {
    hosts.end(host.vipd, SIGKILL);
    hosts.end(host.etcd, SIGKILL);
  }
  void comeBack(Host& host) {
    hosts.startEtcd(host);
    start(host);
  }
  bool ready(Host& holder) {
    unsigned waiting = 0;
    for (auto& host : hosts.hosts) waiting += host->status().startsWith("waiting");
    return holder.status().startsWith("holder") && waiting == kHosts - 1;
  }
  // Makes it etcd's leader.
  void makeItHarder(Host& host) {
    auto id = field(host, "MemberID");
    char hex[20];
    snprintf(hex, sizeof hex, "%llx", static_cast<unsigned long long>(id));
    hosts.until("etcd's leader is the holder", [&] {
      for (auto& each : hosts.hosts) {
        if (field(*each, "MemberID") == field(*each, "Leader") && each.get() != &host) {
          ctl(*each, {"move-leader", hex});
        }
      }
      return field(host, "Leader") == id;
    });
  }
  void rest() {
    hosts.until("one holds the address", [&] {
      for (auto& host : hosts.hosts) {
        if (host->status().startsWith("holder")) return ready(*host);
      }
      return false;
    });
    auto before = requests();
    hosts.timer.afterDelay(kRest).wait(hosts.io.waitScope);
    auto perMinute = double(requests() - before) * double(1 * kj::MINUTES / kRest);
    printf("{\"who\":\"vipd\",\"what\":\"at rest\",\"requestsPerMinute\":%.0f}\n", perMinute);
    printMemory("vipd", {hosts.hosts[0]->vipd});
  }

 private:
  Hosts& hosts;
  pid_t leaving = 0;

  harness::Result ctl(Host& host, std::vector<std::string> words) {
    auto file = [&](kj::StringPtr name) { return std::string(hosts.path(name).cStr()); };
    std::vector<std::string> line = {"etcdctl", "--endpoints=https://127.0.0.1:2379",
                                     "--cacert=" + file("ca.crt"), "--cert=" + file("tls.crt"),
                                     "--key=" + file("tls.key")};
    line.insert(line.end(), words.begin(), words.end());
    return inside(host.place, [&] { return harness::run(line, 10, {"ETCDCTL_API=3"}); });
  }
  uint64_t field(Host& host, const char* name) {
    auto shown = ctl(host, {"endpoint", "status", "--write-out=fields"});
    std::smatch match;
    std::regex line("\"" + std::string(name) + "\" : ([0-9]+)");
    return std::regex_search(shown.out, match, line) ? std::stoull(match[1]) : 0;
  }
  // Returns the number of requests to the three etcds so far, counting each renewal.
  uint64_t requests() {
    uint64_t sum = 0;
    for (auto& host : hosts.hosts) {
      auto text = inside(host->place, [] { return metrics(); });
      std::regex line("\ngrpc_server_msg_received_total[^\n]* ([0-9.e+]+)");
      for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end; ++it) {
        sum += uint64_t(std::stod((*it)[1]));
      }
    }
    return sum;
  }
  static std::string metrics() {
    int fd;
    KJ_SYSCALL(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    kj::AutoCloseFd stream(fd);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kMetricsPort);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    KJ_SYSCALL(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to));
    constexpr char kAsk[] = "GET /metrics HTTP/1.0\r\n\r\n";
    KJ_SYSCALL(write(fd, kAsk, sizeof kAsk - 1));
    std::string all;
    char piece[65536];
    for (;;) {
      ssize_t n;
      KJ_SYSCALL(n = read(fd, piece, sizeof piece));
      if (n == 0) return all;
      all.append(piece, n);
    }
  }
};

// Debian's, with its usual election, of which version 3 knows less than a second between two
// advertisements; the address stays where it is when a better one comes.
class Keepalived {
 public:
  Keepalived(Hosts& hosts, kj::StringPtr advertisements)
      : hosts(hosts), advertisements(advertisements) {}
  void start(Host& host) {
    auto& before = pids[host.number];
    hosts.until("the one before has ended",
                [&] { return before == 0 || waitpid(before, nullptr, WNOHANG) != 0; });
    hosts.takeAway(host);  // what a killed one has left
    auto file = [&](kj::StringPtr suffix) {
      return hosts.path(kj::str("keepalived-", host.number, suffix));
    };
    writeFileAtomically(
        file(".conf"),
        kj::str("global_defs {\n  vrrp_version 3\n  router_id ", host.name(),
                "\n}\nvrrp_instance shared {\n  state BACKUP\n  nopreempt\n  interface eth0\n"
                "  virtual_router_id 51\n  priority ",
                100 + host.number, "\n  advert_int ", advertisements,
                "\n  virtual_ipaddress {\n    ", kVip, "/32 dev eth0\n  }\n}\n"),
        0600);
    auto log = file(kj::str("-", ++starts));
    auto line = kj::arr(
        kj::str("/usr/sbin/keepalived"), kj::str("--dont-fork"), kj::str("--flush-log-file"),
        kj::str("--log-file=", log, ".log"), kj::str("--vrrp"),
        kj::str("--use-file=", file(".conf")), kj::str("--pid=", file(".pid")),
        kj::str("--vrrp_pid=", file("-vrrp.pid")), kj::str("--checkers_pid=", file("-check.pid")),
        kj::str("--bfd_pid=", file("-bfd.pid")));  // locked by each, whether it does that or not
    before =
        spawn(host.place, kj::str(log, ".out"), line, kj::arr(kj::str("PATH=/usr/sbin:/usr/bin")));
    logs[host.number] = kj::str(log, "_vrrp.log");  // of the process that does it
  }
  // Both of its processes: the one alone would start the other again. Until the second has ended,
  // it has its file locked, and the next one would not start.
  void kill(Host& host) {
    auto child = childOf(pids[host.number]);
    ::kill(pids[host.number], SIGKILL);
    if (child > 0) ::kill(child, SIGKILL);
    waitpid(std::exchange(pids[host.number], 0), nullptr, 0);
    if (child > 0) hosts.until("keepalived has ended", [&] { return !runs(child); });
  }
  void leave(Host& host) { ::kill(pids[host.number], SIGTERM); }
  void lose(Host& host) { kill(host); }
  void comeBack(Host& host) { start(host); }
  void makeItHarder(Host&) {}
  bool ready(Host& holder) {
    unsigned backups = 0;
    for (auto& host : hosts.hosts) {
      auto text = tryReadFile(logs[host->number]).orDefault(nullptr);
      std::string said(text.cStr());
      auto backup = said.rfind("Entering BACKUP STATE"),
           master = said.rfind("Entering MASTER STATE"), fault = said.rfind("Entering FAULT STATE");
      auto later = [](size_t a, size_t b) {
        return a != std::string::npos && (b == std::string::npos || a > b);
      };
      backups += host.get() != &holder && later(backup, master) && later(backup, fault);
    }
    return backups == kHosts - 1;
  }
  void rest(kj::StringPtr who) {
    auto pid = pids[hosts.hosts[0]->number];
    printMemory(who, {pid, childOf(pid)});
  }
  void end() {
    for (auto& host : hosts.hosts) {
      kill(*host);
      hosts.takeAway(*host);
    }
  }

 private:
  Hosts& hosts;
  kj::StringPtr advertisements;
  unsigned starts = 0;
  pid_t pids[kHosts + 1] = {};
  kj::String logs[kHosts + 1];

  // Without waitpid(2), because it is not our child.
  static bool runs(pid_t pid) {
    KJ_IF_MAYBE (text, tryReadFile(kj::str("/proc/", pid, "/stat"))) {
      std::string stat(text->cStr());
      auto name = stat.rfind(") ");
      return name != std::string::npos && stat[name + 2] != 'Z';
    }
    return false;
  }
  static pid_t childOf(pid_t parent) {
    auto path = kj::str("/proc/", parent, "/task/", parent, "/children");
    return atoi(tryReadFile(path).orDefault(kj::String()).cStr());
  }
};

void measure(const Arguments& arguments) {
  arguments.expect(1, 1);
  auto runs = arguments.number(1, "RUNS", 1, 1000);
  Hosts hosts;
  std::vector<std::unique_ptr<Listener>> served;
  for (auto& host : hosts.hosts) served.push_back(std::make_unique<Listener>(host->place));
  {
    Vipd vipd(hosts);
    Bench<Vipd>(hosts, "vipd", vipd).run(runs);
    vipd.rest();
    for (auto& host : hosts.hosts) {
      hosts.end(host->vipd, SIGKILL);
      hosts.takeAway(*host);
    }
  }
  for (auto seconds : {"1"_kj, "0.1"_kj}) {
    Keepalived keepalived(hosts, seconds);
    auto who = kj::str("keepalived ", seconds);
    Bench<Keepalived>(hosts, who, keepalived).run(runs);
    keepalived.rest(who);
    keepalived.end();
  }
}

}  // namespace
}  // namespace talos::bench

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "vip-bench", "RUNS", talos::bench::measure);
}
