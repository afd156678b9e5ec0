// A machine whose disk a key server (KMS) has sealed. The server is a thread of the test, at an
// address of this host that QEMU's network has at 10.0.2.2.
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/debug.h>

#include <atomic>
#include <fstream>
#include <regex>
#include <thread>

#include "common/testing/test-port.h"
#include "common/tls/pki.h"
#include "common/tls/tls.h"
#include "machined/confined/parser/test-kms.h"
#include "tests/vm/lone-machine.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
using machined::TestKms;

constexpr double kUp = 600;  // emulated, beside whatever else runs
// MiB. Deriving a key takes a quarter of it, and each boot derives several.
constexpr const char* kMemory = "384";
constexpr const char* kUuid = "7a1e04c2-95b3-4d68-8f0b-3c6d21e9a758";
constexpr const char* kHost = "10.0.2.2";

// Listens at two ports, one of them with TLS; it keeps the ports while it is away.
class KeyServer {
 public:
  // The other one has the same certificate, and does not know the machine.
  enum class Who { kAway, kOwn, kOther };

  KeyServer() : thread([this](const std::stop_token& over) { serve(over); }) { become(Who::kOwn); }
  KeyServer(const KeyServer&) = delete;

  const uint16_t port = freePort(), tlsPort = freePort();
  const pki::CertificateAndKey authority = pki::makeAuthority({.organization = "kms"});
  // Calls of the server that knows the machine.
  std::atomic<unsigned> seals = 0, unseals = 0;
  // Calls of the other one.
  std::atomic<unsigned> wrongUnseals = 0;

  // Returns when this server answers; after kAway, when the connections are closed.
  void become(Who who) {
    desired = who;
    EXPECT_TRUE(eventually([&] { return current == who; }, 60));
  }

 private:
  static constexpr auto kLook = 20 * kj::MILLISECONDS;
  std::atomic<Who> desired = Who::kAway, current = Who::kAway;
  std::jthread thread;  // the last: it ends first

  struct Errors final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}  // the machine closed the connection
  };
  struct Listening {
    Listening(kj::AsyncIoContext& io, TestKms& model, TlsEndpoint& tls, uint16_t port,
              uint16_t tlsPort)
        : io(io), model(model), tls(tls) {
      connections.add(accept(port, false));
      connections.add(accept(tlsPort, true));
    }
    kj::AsyncIoContext& io;
    TestKms& model;
    TlsEndpoint& tls;
    Errors errors;
    kj::TaskSet connections{errors};

    kj::Promise<void> accept(uint16_t port, bool secure) {
      auto address = co_await io.provider->getNetwork().parseAddress("127.0.0.1", port);
      auto receiver = address->listen();
      for (;;) connections.add(answer(co_await receiver->accept(), secure));
    }
    kj::Promise<void> answer(kj::Own<kj::AsyncIoStream> stream, bool secure) {
      if (secure) stream = (co_await tls.accept(kj::mv(stream), kj::str("node"))).stream;
      co_await model.serve(io.provider->getTimer(), kj::mv(stream));
    }
  };

  void serve(const std::stop_token& over) {
    auto io = kj::setupAsyncIo();
    TestKms own{kUuid}, other{};
    auto leaf =
        pki::issue(authority.certificate, authority.key, {.addresses = kj::arr(kj::str(kHost))});
    TlsEndpoint tls;
    tls.replaceAnonymous(leaf.certificate, leaf.key);
    tls.enableHttp2();
    kj::Maybe<kj::Own<Listening>> listening;
    while (!over.stop_requested()) {
      Who who = desired;
      if (who != current) {
        listening = nullptr;
        if (who != Who::kAway) {
          auto& model = who == Who::kOwn ? own : other;
          listening = kj::heap<Listening>(io, model, tls, port, tlsPort);
        }
        io.provider->getTimer().afterDelay(kLook).wait(io.waitScope);
        current = who;
      }
      io.provider->getTimer().afterDelay(kLook).wait(io.waitScope);
      seals = own.seals;
      unseals = own.unseals;
      wrongUnseals = other.unseals;
    }
  }
};

// The first part of a config has STATE and EPHEMERAL with these keys, the last the server's CA.
std::string withServer(const std::string& config, const KeyServer& server, const std::string& state,
                       const std::string& ephemeral) {
  auto keys =
      "$&    systemDiskEncryption:\n        state: {provider: luks2, keys: [{kms: "
      "{endpoint: \"grpc://" +
      std::string(kHost) + ":" + std::to_string(server.port) + "\"}, slot: 0}, " + state +
      "]}\n        ephemeral: {provider: luks2, keys: [{kms: {endpoint: \"https://" + kHost + ":" +
      std::to_string(server.tlsPort) + "\"}, slot: 0}, " + ephemeral + "]}\n";
  auto pem = std::regex_replace(std::string(server.authority.certificate.cStr()),
                                std::regex("(^|\n)(?=.)"), "$&  ");
  return std::regex_replace(config, std::regex("\nmachine:\n"), keys) +
         "\n---\napiVersion: v1alpha1\nkind: TrustedRootsConfig\nname: kms\ncertificates: |\n" +
         pem;
}

struct ServedMachine {
  LoneMachine& machine;

  void expectOpen(const std::string& label, const std::string& slot) const {
    std::string last;
    std::regex row(label + R"(\s+\d+\s+ready\s.*\sluks2\s+)" + slot + R"(\s)");
    EXPECT_TRUE(eventually(
        [&] {
          auto said = machine.at({"get", "volumestatus"});
          last = said.out + said.err;
          return std::regex_search(last, row);
        },
        kUp, 1))
        << label << " is not open by slot " << slot << ":\n"
        << last << machine.console();
  }
  // Waits until EPHEMERAL waits, and the API gives the reason, with this text.
  void expectWaiting(const std::string& error) const {
    std::string last;
    EXPECT_TRUE(eventually(
        [&] {
          auto volume = machine.at({"get", "volumestatus", "EPHEMERAL", "-o", "yaml"});
          last = volume.out + volume.err;
          return contains(last, "phase: waiting\n") && contains(last, error.c_str());
        },
        kUp, 1))
        << "without: " << error << "\n"
        << last << machine.console();
    auto status = machine.at({"status"});
    EXPECT_TRUE(contains(status.out, "EPHEMERAL: ") && contains(status.out, error.c_str()))
        << status.out << status.err;
  }
  void expectConsole(const std::string& text) const {
    EXPECT_TRUE(eventually([&] { return contains(machine.console(), text.c_str()); }, kUp, 1))
        << "without: " << text << "\n"
        << machine.console();
  }
  std::string boot() const { return machine.at({"read", "/proc/sys/kernel/random/boot_id"}).out; }
  // Runs a command that derives several keys, which takes longer than LoneMachine lets a call take.
  harness::Result slowly(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {getenv("TALOSCTL"), "--talosconfig", machine.path("talosconfig"), "--timeout",
                      "5m", "-e", machine.address, "-n", machine.address});
    return harness::run(arguments, kUp);
  }
  void apply(const std::string& config, const char* mode) const {
    std::ofstream(machine.path("next.yaml")) << config;
    auto applied = slowly({"apply-config", "--file", machine.path("next.yaml"), mode});
    ASSERT_EQ(applied.status, 0) << applied.out << applied.err << machine.console();
  }
  // Turns the machine off and on, without its disc; the file of the console begins again.
  void restart() const {
    machine.turnOff();
    machine.turnOn([](LoneMachine::Hardware& hardware) { hardware.cd = ""; });
  }
  std::string recoveryKey(const std::string& label, const std::string& slot) const {
    auto table = slowly({"encryption", "recovery-key", label, slot});
    std::smatch key;
    bool found = std::regex_search(table.out, key, std::regex("([a-z2-9]{5}-){7}[a-z2-9]{5}"));
    EXPECT_TRUE(found) << table.out << table.err;
    return found ? key[0].str() : "";
  }
};

}  // namespace

// Catches: volumes that are not sealed, or that a boot does not open by the server; a server whose
// CA only the config has; a STATE that stays closed when its server comes back, or whose list of
// keys in META has no endpoint; a key that a change of keys does not add beside the server's; a
// machine that waits without its API, or does not say for what; a volume that needs a reboot when
// the server comes back; a server that answers with another key and opens a volume, takes the place
// of the right one, or keeps the next key from being tried.
TEST(KmsDisk, OpensByItsServerAndWaitsForIt) {
  KeyServer server;
  std::string config, recovery = "{recovery: {}, slot: 7}";
  LoneMachine machine({.disk = LoneMachine::writtenDisk("../image", {"talos.config=metal-iso"}),
                       .more = {"-m", kMemory, "-uuid", kUuid},
                       .beforeItStarts = [&](LoneMachine& self, LoneMachine::Hardware& hardware) {
                         config = self.generate();
                         hardware.cd = self.disc("metal-iso", "config.yaml",
                                                 withServer(config, server, recovery, recovery));
                       }});
  ServedMachine node{machine};
  node.expectOpen("STATE", "0");
  node.expectOpen("EPHEMERAL", "0");
  EXPECT_EQ(server.seals, 2u) << machine.console();
  EXPECT_NE(node.recoveryKey("EPHEMERAL", "7"), "");
  node.expectConsole("task saveConfig (1/1): done");

  // STATE has the config, so without it there is only the console.
  server.become(KeyServer::Who::kAway);
  node.restart();
  auto endpoint = "the key server " + std::string(kHost) + ":" + std::to_string(server.port) + ": ";
  node.expectConsole(endpoint);
  node.expectConsole("STATE is encrypted, and its key server has not opened it; retrying");
  auto before = server.unseals.load();
  server.become(KeyServer::Who::kOwn);
  node.expectOpen("STATE", "0");
  node.expectOpen("EPHEMERAL", "0");
  EXPECT_GE(server.unseals, before + 2);
  EXPECT_EQ(server.seals, 2u) << "a key was sealed again\n" << machine.console();
  std::string withNodeId = "{nodeID: {}, slot: 1}";
  ASSERT_NO_FATAL_FAILURE(
      node.apply(withServer(config, server, withNodeId, recovery), "--on-reboot"));

  server.become(KeyServer::Who::kAway);
  node.restart();
  auto tlsEndpoint =
      "the key server " + std::string(kHost) + ":" + std::to_string(server.tlsPort) + ": ";
  node.expectWaiting(tlsEndpoint);
  node.expectOpen("STATE", "1");
  auto boot = node.boot();
  EXPECT_EQ(boot.size(), machine.at({"read", "/proc/sys/kernel/random/uuid"}).out.size()) << boot;
  server.become(KeyServer::Who::kOwn);
  node.expectOpen("EPHEMERAL", "0");
  EXPECT_EQ(node.boot(), boot);

  server.become(KeyServer::Who::kOther);
  node.restart();
  node.expectWaiting("a key server may be away, or may not know this machine");
  node.expectOpen("STATE", "1");
  EXPECT_GE(server.wrongUnseals, 2u);
  server.become(KeyServer::Who::kOwn);
  node.restart();
  node.expectOpen("STATE", "0");
  node.expectOpen("EPHEMERAL", "0");
}

}  // namespace talos::vm
