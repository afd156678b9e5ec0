// Authentication at TCP 50000: accepted clients, and the answers to all others.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <regex>
#include <sstream>

#include "common/base/file.h"
#include "common/config/config.h"
#include "common/tls/pki.h"
#include "tests/vm/shared.h"

namespace talos::vm {
namespace {

using harness::contains;

// The Talos CA of the cluster, from the machine config that its provisioner wrote.
pki::CertificateAndKey clusterAuthority() {
  auto text = readFile(kj::str(machine().stateFolder().c_str(), "/vmtest-master-1.yaml"));
  auto config = config::parse(text);
  KJ_REQUIRE(config.good(), render(config.problems()));
  auto ca = config.get().getMachine().getCa();
  return {kj::heapString(ca.getCrt().asChars()), pki::Pem(kj::heapString(ca.getKey().asChars()))};
}

pki::CertificateAndKey client(const pki::CertificateAndKey& authority, const char* role,
                              kj::Duration age = 0 * kj::SECONDS,
                              kj::Duration lifetime = 1 * kj::HOURS) {
  pki::LeafOptions options;
  options.commonName = "tester";
  if (role != nullptr) options.organizations = kj::arr(kj::str(role));
  options.lifetime = lifetime;
  // Without an age the certificate begins a little in the past, as every certificate of ours,
  // because clocks differ.
  if (age > 0 * kj::SECONDS) options.notBefore = kj::systemPreciseCalendarClock().now() - age;
  return pki::issue(authority.certificate, authority.key, kj::mv(options));
}

// A talosconfig that trusts the cluster and shows this certificate.
std::string configWith(const std::string& name, const pki::CertificateAndKey& identity) {
  auto path = machine().folder() + "/" + name;
  auto base64 = [](kj::StringPtr text) {
    return std::string(kj::encodeBase64(text.asBytes(), false).cStr());
  };
  auto authority = clusterAuthority();
  std::ofstream out(path);
  out << "context: t\ncontexts:\n    t:\n        endpoints:\n            - " << endpoint()
      << "\n        nodes:\n            - " << node()
      << "\n        ca: " << base64(authority.certificate)
      << "\n        crt: " << base64(identity.certificate)
      << "\n        key: " << base64(identity.key) << "\n";
  return path;
}

// Runs the lines in a separate folder, with talosctl in the path.
harness::Result script(const std::string& folder, const std::string& lines) {
  return harness::run({"sh", "-euc",
                       "cd '" + folder + "' && mkdir -p bin && ln -sf '" + harness::talosctlPath() +
                           "' bin/talosctl && PATH=\"$PWD/bin:$PATH\"\n" + lines},
                      60);
}

std::string newFolder(const char* name) {
  auto folder = machine().folder() + "/" + name;
  makeDirectories(folder.c_str(), 0700);
  return folder;
}

void write(const std::string& path, kj::StringPtr text) {
  writeFileAtomically(path.c_str(), text, 0600);
}

harness::Result as(const std::string& config, std::vector<std::string> arguments) {
  std::vector<std::string> words = {harness::talosctlPath(), "--talosconfig", config, "--timeout",
                                    "10s"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return harness::run(words, 60);
}

void expectUnharmed() {
  auto version = machine().talosctl({"version"});
  EXPECT_EQ(version.status, 0) << "the next honest call failed: " << version.err;
}

int dial() {
  int fd;
  KJ_SYSCALL(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(50000);
  inet_pton(AF_INET, endpoint().c_str(), &to.sin_addr);
  KJ_SYSCALL(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to));
  return fd;
}

}  // namespace

// Catches: a listener that requests a certificate and continues without it.
TEST(Trust, NoCertificateIsRefusedAndLogged) {
  // Reads until the node closes: in TLS 1.3 the refusal comes after the handshake.
  auto anonymous = harness::run(
      {"openssl", "s_client", "-connect", endpoint() + ":50000", "-tls1_3", "-ign_eof"}, 30);
  EXPECT_NE(anonymous.status, 0);
  EXPECT_NE(anonymous.status, -1) << "the node kept a connection without a certificate";
  EXPECT_TRUE(contains(anonymous.out + anonymous.err, "certificate required"))
      << anonymous.out << anonymous.err;
  auto log = machine().ok({"logs", "apid"});
  EXPECT_TRUE(contains(log, "did not return a certificate")) << log;
  expectUnharmed();
}

TEST(Trust, AStrangersCertificateIsRefused) {
  auto stranger = pki::makeAuthority({.organization = "talos"});
  auto refused = as(configWith("foreign", client(stranger, "os:admin")), {"version"});
  EXPECT_EQ(refused.status, 1) << refused.out;
  EXPECT_FALSE(contains(refused.out, "NODE:"));
  expectUnharmed();
}

TEST(Trust, AnExpiredCertificateIsRefused) {
  auto authority = clusterAuthority();
  auto expired = client(authority, "os:admin", 48 * kj::HOURS, 24 * kj::HOURS);
  auto refused = as(configWith("expired", expired), {"version"});
  EXPECT_EQ(refused.status, 1) << refused.out;
  EXPECT_TRUE(contains(refused.err, "expired")) << refused.err;
  expectUnharmed();
}

TEST(Trust, NoRoleMeansNoCall) {
  auto refused = as(configWith("norole", client(clusterAuthority(), nullptr)), {"version"});
  EXPECT_EQ(refused.status, 1) << refused.out;
  expectUnharmed();
}

TEST(Trust, AReaderReadsAndMayNotReboot) {
  auto reader = configWith("reader", client(clusterAuthority(), "os:reader"));
  EXPECT_EQ(as(reader, {"version"}).status, 0);
  EXPECT_EQ(as(reader, {"services"}).status, 0);
  struct Row {
    std::vector<std::string> arguments;
    const char* needs;
  };
  for (auto& row :
       {Row{{"reboot"}, "os:operator"}, Row{{"shutdown"}, "os:operator"},
        Row{{"service", "networkd", "restart"}, "os:operator"}, Row{{"get", "mc"}, "os:admin"},
        Row{{"get", "wireguardkeys"}, "os:admin"}, Row{{"read", "/etc/os-release"}, "os:admin"}}) {
    auto refused = as(reader, row.arguments);
    EXPECT_EQ(refused.status, 1) << row.arguments[0] << ": " << refused.out;
    EXPECT_TRUE(contains(refused.err, row.needs)) << refused.err;
  }
  auto log = machine().ok({"logs", "apid"});
  EXPECT_TRUE(contains(log, "Machine.reboot")) << log;
  EXPECT_TRUE(contains(log, "tester")) << log;
  expectUnharmed();
}

// The user's chapter "Managing PKI", its lines as they are printed.
constexpr const char* kNewPair = R"(talosctl gen key --name admin
talosctl gen csr --key admin.key --ip 127.0.0.1
talosctl gen crt --ca ca --csr admin.csr --name admin
cat admin.crt | base64
cat admin.key | base64
)";
constexpr const char* kRenewed = R"(talosctl gen csr --key admin.key --ip 127.0.0.1
talosctl gen crt --ca ca --csr admin.csr --name admin
cat admin.crt | base64
)";

// Catches: a certificate of the chapter that the machine does not take, or that openssl reads
// otherwise than the documents say.
TEST(Trust, TheChapterManagingPki) {
  auto authority = clusterAuthority();
  auto fresh = newFolder("pki");
  write(fresh + "/ca.crt", authority.certificate);
  write(fresh + "/ca.key", authority.key);
  auto made = script(fresh, kNewPair);
  ASSERT_EQ(made.status, 0) << made.err;
  auto pairOf = [](const std::string& folder) {
    return pki::CertificateAndKey{readFile((folder + "/admin.crt").c_str()),
                                  pki::Pem(readFile((folder + "/admin.key").c_str()))};
  };
  auto version = as(configWith("chapter", pairOf(fresh)), {"version"});
  EXPECT_EQ(version.status, 0) << version.err;

  // An administrator whose certificate has expired.
  auto renewed = newFolder("pki-renewed");
  write(renewed + "/ca.crt", authority.certificate);
  write(renewed + "/ca.key", authority.key);
  auto expired = client(authority, "os:admin", 48 * kj::HOURS, 24 * kj::HOURS);
  write(renewed + "/admin.key", expired.key);
  auto refused = as(configWith("before", expired), {"version"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, "certificate expired")) << refused.err;
  EXPECT_TRUE(contains(refused.err, "valid from ")) << refused.err;
  EXPECT_TRUE(contains(refused.err, "the clock here shows ")) << refused.err;
  made = script(renewed, kRenewed);
  ASSERT_EQ(made.status, 0) << made.err;
  version = as(configWith("after", pairOf(renewed)), {"version"});
  EXPECT_EQ(version.status, 0) << version.err;
  EXPECT_TRUE(contains(version.out, "NODE:")) << version.out;

  auto verified = script(renewed, "openssl verify -CAfile ca.crt admin.crt");
  EXPECT_TRUE(contains(verified.out, "admin.crt: OK")) << verified.out << verified.err;
  auto text = script(renewed, "openssl x509 -in admin.crt -noout -text").out;
  for (auto expected : {"O=os:admin", "IP Address:127.0.0.1", "Digital Signature",
                        "TLS Web Client Authentication", "ED25519"}) {
    EXPECT_TRUE(contains(text, expected)) << expected << " is not in:\n" << text;
  }
  EXPECT_FALSE(contains(text, "CA:TRUE")) << text;
}

// Catches: rights that grow, a change that leaves no trace, and a trace that a crash wipes out.
TEST(Trust, ARoleForSomebodyElseAndItsTraces) {
  auto path = machine().folder() + "/operator";
  machine().ok({"config", "new", path, "--roles", "os:operator", "--crt-ttl", "1h"});
  auto restarted = as(path, {"-n", node(), "service", "timed", "restart"});
  EXPECT_EQ(restarted.status, 0) << restarted.err;
  auto refused = as(path, {"-n", node(), "get", "mc"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, "os:admin")) << refused.err;
  auto again = as(path, {"-n", node(), "config", "new", machine().folder() + "/more"});
  EXPECT_EQ(again.status, 1);
  EXPECT_TRUE(contains(again.err, "Machine.clientCertificate needs the role os:admin"))
      << again.err;

  ASSERT_TRUE(allUp(60));
  auto brain = machine().servicePids()["machined"];
  machine().talosctl({"service", "machined", "kill", "--signal", "SIGKILL"});
  ASSERT_TRUE(harness::eventually(
      [&] {
        auto now = machine().servicePids();
        return now.count("machined") && now["machined"] != brain;
      },
      30));
  ASSERT_TRUE(allUp(60));
  EXPECT_TRUE(contains(machine().talosctl({"logs", "nobody"}).err, "audit"));  // names all
  // The record of the call that killed the brain comes when the next brain runs.
  EXPECT_TRUE(harness::eventually(
      [&] { return contains(machine().talosctl({"logs", "audit"}).out, "Services.kill("); }, 30));
  auto log = machine().ok({"logs", "audit"});
  for (auto expected :
       {"call=\"Machine.clientCertificate(", "roles: [\\\"os:operator\\\"], lifetimeS: 3600",
        "roles=os:operator call=\"Services.restart(id: \\\"timed\\\")\" outcome=ok",
        "outcome=\"PermissionDenied: Machine.clientCertificate needs the role os:admin",
        "Services.kill(id: \\\"machined\\\", signal: 9)"}) {
    EXPECT_TRUE(contains(log, expected)) << expected << " is not in:\n" << log;
  }
  for (auto secret : {"PRIVATE", "BEGIN CERT"}) EXPECT_FALSE(contains(log, secret)) << log;
  expectUnharmed();
}

// Catches: a listener that a peer without TLS can block, crash or fill.
TEST(Trust, GarbageOnThePortHarmsNobody) {
  std::mt19937 random(20211);
  for (int round = 0; round < 300; ++round) {
    int fd = dial();
    std::string bytes(1 + random() % 2000, '\0');
    for (auto& byte : bytes) byte = static_cast<char>(random());
    if (round % 3 == 0)
      bytes.replace(0, std::min<size_t>(5, bytes.size()), "\x16\x03\x01\x02\x00",
                    std::min<size_t>(5, bytes.size()));
    (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    close(fd);
  }
  std::vector<int> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(dial());  // half-open: connected, never a word
  expectUnharmed();
  for (int fd : silent) close(fd);
  auto before = machine().servicePids();
  EXPECT_EQ(before.count("apid"), 1);
}

}  // namespace talos::vm
