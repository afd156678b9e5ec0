// The streams `kernel` and `audit` of machine.logging, of a virtual machine, which has its own
// kernel.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <thread>

#include "common/testing/test-port.h"
#include "tests/vm/lone-machine.h"
#include "tests/vm/qemu-control.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
using harness::lines;

// A receiver of logs on the host of a virtual machine: TCP, at a port of 127.0.0.1 that it keeps
// while it is stopped. It ends a connection without losing lines: it reads until the sender has
// ended it, too.
class LineReceiver {
 public:
  LineReceiver() { start(); }
  ~LineReceiver() { stop(); }
  LineReceiver(const LineReceiver&) = delete;

  uint16_t port() const { return number; }
  std::string bytes() const {
    std::lock_guard locked(guard);
    return got;
  }

  void start() {
    int raw, on = 1;
    KJ_SYSCALL(raw = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    listener = kj::AutoCloseFd(raw);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(number);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    KJ_SYSCALL(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
    KJ_SYSCALL(bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof(name)));
    KJ_SYSCALL(listen(listener, 4));
    thread = std::jthread([this](std::stop_token over) { serve(over); });
  }
  void stop() {
    if (!thread.joinable()) return;
    thread.request_stop();
    thread.join();
  }

 private:
  static constexpr int kLook = 50, kFarewell = 10'000;  // ms
  mutable std::mutex guard;
  std::string got;
  const uint16_t number = freePort();
  kj::AutoCloseFd listener;
  std::jthread thread;

  static bool readable(int fd, int milliseconds) {
    struct pollfd poller = {fd, POLLIN, 0};
    return poll(&poller, 1, milliseconds) == 1;
  }
  // Reads from a connection; returns false at its end.
  bool take(int connection) {
    char buffer[16384];
    auto size = read(connection, buffer, sizeof(buffer));
    if (size <= 0) return false;
    std::lock_guard locked(guard);
    got.append(buffer, static_cast<size_t>(size));
    return true;
  }
  // Serves one sender after the other.
  void serve(const std::stop_token& over) {
    while (!over.stop_requested()) {
      if (!readable(listener, kLook)) continue;
      kj::AutoCloseFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
      if (connection == nullptr) continue;
      bool open = true;
      while (open && !over.stop_requested()) {
        if (readable(connection, kLook)) open = take(connection);
      }
      listener = over.stop_requested() ? nullptr : kj::mv(listener);
      if (open) (void)shutdown(connection, SHUT_WR);
      while (open && readable(connection, kFarewell)) open = take(connection);
    }
    listener = nullptr;
  }
};

constexpr double kUp = 480;  // emulated, beside whatever else runs
constexpr unsigned kInterrupts = 5;

struct KernelRecord {
  std::string facility, priority, message;
  bool operator==(const KernelRecord&) const = default;
};
std::ostream& operator<<(std::ostream& out, const KernelRecord& record) {
  return out << record.facility << "." << record.priority << " " << record.message;
}

// "kern:    info: [2021-03-01T12:00:00.123456000Z]: NET: Registered", of the node itself.
std::vector<KernelRecord> kernelLogOf(const LoneMachine& machine) {
  static const std::regex kLine("([a-z0-9]+): *([a-z]+): \\[[^\\]]*\\]: (.*)");
  std::vector<KernelRecord> all;
  for (auto& line : lines(machine.at({"dmesg"}).out)) {
    std::smatch parts;
    auto text = line.substr(line.find(": ") + 2);  // without the node
    if (std::regex_match(text, parts, kLine)) all.push_back({parts[1], parts[2], parts[3]});
  }
  return all;
}

// Returns the records by their number, as a receiver of json_lines got them. Records that come
// twice are marked, and equal.
std::map<uint64_t, KernelRecord> received(const LineReceiver& receiver) {
  std::map<uint64_t, KernelRecord> all;
  uint64_t last = 0;
  auto text = receiver.bytes();
  text.resize(text.rfind('\n') + 1);
  for (auto& line : lines(text)) {
    auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("seq")) continue;  // of logd itself
    KernelRecord record{object["facility"], object["priority"], object["msg"]};
    auto number = object["seq"].get<uint64_t>();
    auto [place, isNew] = all.emplace(number, record);
    if (!isNew) {
      EXPECT_TRUE(object.contains("talos-repeated")) << line;
      EXPECT_EQ(place->second, record);
    } else if (all.size() > 1) {
      EXPECT_EQ(last + 1, number) << line;
    }
    last = number;
  }
  return all;
}

// The messages of a stream of syslog (RFC 6587, octet counting), without those that came twice and
// are marked.
std::vector<std::string> messagesOf(const LineReceiver& receiver) {
  static const std::regex kAlone(" \\[repeated@32473\\] "), kMark("\\[repeated@32473\\] ");
  std::vector<std::string> all;
  auto text = receiver.bytes();
  for (size_t at = 0; at < text.size();) {
    auto blank = text.find(' ', at);
    if (blank == text.npos) break;
    auto length = std::stoul(text.substr(at, blank - at));
    if (blank + 1 + length > text.size()) break;
    auto message = text.substr(blank + 1, length);
    auto unmarked = std::regex_replace(std::regex_replace(message, kAlone, " - "), kMark, " ");
    if (unmarked == message || std::find(all.begin(), all.end(), unmarked) == all.end()) {
      all.push_back(unmarked);
    }
    at = blank + 1 + length;
  }
  return all;
}

std::vector<std::string> auditLogOf(const LoneMachine& machine) {
  std::vector<std::string> all;
  for (auto& line : lines(machine.at({"logs", "audit"}).out)) {
    if (!line.empty()) all.push_back(line.substr(line.find(": ") + 2));
  }
  return all;
}

std::string destination(const LineReceiver& receiver, const std::string& rest) {
  return "{endpoint: 'tcp://10.0.2.2:" + std::to_string(receiver.port()) + "', " + rest + "}";
}

// Expects all records of the node, in their order; records written meanwhile may follow.
void expectWholeLog(const LoneMachine& machine, const LineReceiver& receiver, const char* when) {
  auto log = kernelLogOf(machine);
  ASSERT_GT(log.size(), 100u) << when;
  ASSERT_TRUE(eventually([&] { return received(receiver).size() >= log.size(); }, kUp, 1))
      << when << ": " << received(receiver).size() << " of " << log.size()
      << machine.at({"get", "logdestinationstatuses", "-o", "yaml"}).out;
  auto got = received(receiver);
  EXPECT_EQ(0u, got.begin()->first) << when;
  size_t i = 0;
  for (auto& [number, record] : got) {
    if (i < log.size()) ASSERT_EQ(log[i++], record) << when << ", " << number;
  }
}

// Expects the same records by syslog, with the number of facility and severity (RFC 5424, 6.2.1).
void expectSyslog(const std::map<uint64_t, KernelRecord>& records, const LineReceiver& syslog) {
  static const std::regex kMessage(
      "<(\\d+)>1 \\S+ \\S+ kernel - kernel \\[kernel@32473 seq=\"(\\d+)\" clock=\"\\d+\"\\] .*");
  const std::map<std::string, unsigned> kFacilities = {{"kern", 0}, {"user", 1}, {"daemon", 3}};
  const std::vector<std::string> kPriorities = {"emerg",   "alert",  "crit", "err",
                                                "warning", "notice", "info", "debug"};
  std::map<uint64_t, unsigned> numbers;
  auto readSyslog = [&] {
    for (auto& message : messagesOf(syslog)) {
      std::smatch parts;
      if (!std::regex_match(message, parts, kMessage)) continue;
      numbers[std::stoull(parts[2])] = unsigned(std::stoul(parts[1]));
    }
    return numbers.size() >= records.size();
  };
  ASSERT_TRUE(eventually(readSyslog, kUp, 1)) << numbers.size() << " of " << records.size();
  for (auto& [number, record] : records) {
    ASSERT_TRUE(kFacilities.contains(record.facility)) << record;
    auto severity = std::find(kPriorities.begin(), kPriorities.end(), record.priority);
    EXPECT_EQ(kFacilities.at(record.facility) * 8 + unsigned(severity - kPriorities.begin()),
              numbers[number])
        << number << " " << record;
  }
}

// The audit log, and nothing but it.
void expectAuditLog(const LoneMachine& machine, const LineReceiver& audit) {
  ASSERT_TRUE(eventually([&] { return messagesOf(audit).size() >= 2; }, kUp, 1));
  auto log = auditLogOf(machine);
  EXPECT_TRUE(
      eventually([&] { return messagesOf(audit).size() >= auditLogOf(machine).size(); }, kUp, 1));
  auto messages = messagesOf(audit);
  ASSERT_GE(messages.size(), log.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    auto header = messages[i].substr(0, messages[i].find(" - audit - "));
    EXPECT_TRUE(std::regex_match(header, std::regex("<(10[4-9]|11[01])>1 \\S+ \\S+ audit")))
        << header;
    if (i < log.size()) EXPECT_TRUE(messages[i].ends_with(" - audit - " + log[i])) << messages[i];
  }
}

}  // namespace

// Catches: a kernel log that begins where logd began, or again from its start; a facility or
// priority that differs from the record's; records that are lost or come in another order while the
// receiver is away or logd and machined are killed; a stream with lines of another stream.
TEST(KernelStream, ReachesAReceiverThatWasAway) {
  LineReceiver json, syslog, audit;
  std::string monitor;
  LoneMachine machine({.disk = LoneMachine::writtenDisk("../image"),
                       .beforeItStarts = [&](LoneMachine& self, LoneMachine::Hardware& hardware) {
                         monitor = self.path("monitor");
                         hardware.more = {"-qmp", "unix:" + monitor + ",server=on,wait=off"};
                       }});
  auto config = std::regex_replace(
      machine.generate(), std::regex("\nmachine:\n"),
      "$&    logging: {destinations: [" + destination(json, "streams: [kernel]") + ", " +
          destination(syslog, "format: rfc5424, streams: [kernel]") + ", " +
          destination(audit, "format: rfc5424, streams: [audit]") + "]}\n");
  ASSERT_NO_FATAL_FAILURE(machine.configure(config));
  ASSERT_TRUE(eventually([&] { return !received(json).empty(); }, kUp, 1)) << machine.console();
  ASSERT_NO_FATAL_FAILURE(expectWholeLog(machine, json, "at first"));
  EXPECT_TRUE(contains(received(json).begin()->second.message, "Linux version "));

  // The kernel logs an unexpected interrupt with its highest priority.
  QemuControl control(monitor);
  auto interrupts = [&] {
    unsigned count = 0;
    for (auto& record : kernelLogOf(machine)) {
      count += contains(record.message, "NMI received for unknown reason");
    }
    return count;
  };
  auto kill = [&](const char* service) {
    EXPECT_EQ(machine.at({"service", service, "kill", "--signal", "SIGKILL"}).status, 0) << service;
  };
  auto interrupt = [&](unsigned number) {
    control.command("inject-nmi");
    EXPECT_TRUE(eventually([&] { return interrupts() >= number; }, kUp, 1)) << number;
  };
  json.stop();
  auto before = received(json).size();
  interrupt(1);
  interrupt(2);
  kill("logd");
  interrupt(3);
  kill("machined");
  for (unsigned i = 4; i <= kInterrupts; ++i) interrupt(i);
  EXPECT_EQ(before, received(json).size());
  json.start();
  ASSERT_NO_FATAL_FAILURE(expectWholeLog(machine, json, "after it was away"));
  auto records = received(json);
  unsigned emergencies = 0, ofMachined = 0;
  for (auto& [number, record] : records) {
    emergencies += record.facility == "kern" && record.priority == "emerg" &&
                   contains(record.message, "NMI received for unknown reason");
    ofMachined += record.facility == "user" && contains(record.message, "[talos] ");
  }
  EXPECT_EQ(kInterrupts, emergencies);
  EXPECT_GT(ofMachined, 10u);

  ASSERT_NO_FATAL_FAILURE(expectSyslog(records, syslog));
  expectAuditLog(machine, audit);
}

}  // namespace talos::vm
