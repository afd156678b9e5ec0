// A core of a daemon that crashes on a running node: only when it is wanted, without
// the secrets that are in the daemons' memory, and gone when it is removed. That a debugger can use
// it, common/crash tests.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::lines;

std::string contentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string decodedBase64(const std::string& text) {
  auto bytes = kj::decodeBase64(kj::arrayPtr(text.data(), text.size()));
  return {bytes.asChars().begin(), bytes.size()};
}

// True if a process has these bytes in its writable memory, as this host's root sees it.
bool hasInMemory(pid_t pid, const std::string& bytes) {
  auto folder = "/proc/" + std::to_string(pid);
  std::ifstream maps(folder + "/maps");
  int memory = open((folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  bool found = false;
  static const std::regex writable("([0-9a-f]+)-([0-9a-f]+) rw.*");
  for (std::string line; std::getline(maps, line) && !found;) {
    std::smatch match;
    if (!std::regex_match(line, match, writable)) continue;
    auto begin = std::stoull(match[1], nullptr, 16), end = std::stoull(match[2], nullptr, 16);
    std::string part(end - begin, 0);
    auto n = pread(memory, part.data(), part.size(), static_cast<off_t>(begin));
    found = n > 0 && part.substr(0, static_cast<size_t>(n)).find(bytes) != std::string::npos;
  }
  close(memory);
  return found;
}

struct Secret {
  std::string name, bytes;
};

// The CA key of the machine API and the token of the node's config, in each form that they have.
std::vector<Secret> secretsIn(const std::string& config) {
  std::smatch match;
  std::vector<Secret> all;
  static const std::regex key("ca:\\s+crt: \\S+\\s+key: (\\S+)"), token("token: (\\S+)");
  if (std::regex_search(config, match, key)) {
    auto pem = decodedBase64(match[1]);
    std::string body;
    for (auto& line : lines(pem)) {
      if (!contains(line, "-----")) body += line;
    }
    auto der = decodedBase64(body);
    all.push_back({"key in the config", match[1]});
    all.push_back({"key as PEM", body});
    all.push_back({"key as DER", der});
    constexpr size_t kSeed = 32;  // of Ed25519: the last bytes of the DER
    all.push_back({"key as it signs", der.substr(der.size() - kSeed)});
  }
  if (std::regex_search(config, match, token)) all.push_back({"token", match[1]});
  return all;
}

// Catches: a core that was not requested, that has a key or a token in it, that a reboot loses, or
// that stays after it was removed.
TEST(Cores, AreKeptWithoutSecrets) {
  Cluster cluster("cores", {"--provisioner=container", "--no-uplink", "--workers", "0"});
  auto ok = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"-n", Cluster::kFirst, "--timeout", "10s"});
    return cluster.ok(std::move(arguments));
  };
  auto reports = [&](const std::string& service) {
    std::vector<std::string> ids;
    std::regex row("\\S+ +(" + service + "-[0-9TZ-]+) .*");
    for (auto& line :
         lines(cluster.talosctl({"-n", Cluster::kFirst, "--timeout", "10s", "crashes"}).out)) {
      std::smatch match;
      if (std::regex_match(line, match, row)) ids.push_back(match[1]);
    }
    return ids;
  };
  auto runs = [&](const std::string& service) { return cluster.pidsOfServices()[service] != 0; };
  auto core = cluster.folder() + "/core";
  auto save = [&](const std::string& report) {
    return cluster.talosctl({"-n", Cluster::kFirst, "crashes", report, "--core", core});
  };
  auto secrets = secretsIn(ok({"read", "/system/state/config.yaml"}));
  ASSERT_EQ(5u, secrets.size());

  const std::vector<std::string> kServices = {"trustd", "apid", "networkd", "etcd-supervisor",
                                              "kubed"};
  bool secretSeen = false;
  for (auto& service : kServices) {
    SCOPED_TRACE(service);
    ASSERT_TRUE(eventually([&] { return runs(service); }, 60, 0.1));
    ok({"debug", "cores", service, "on"});
    EXPECT_TRUE(contains(ok({"debug", "cores", service}), " on"));
    auto pid = cluster.program("cores-master-1", service);
    for (auto& secret : secrets) secretSeen |= hasInMemory(pid, secret.bytes);
    ok({"service", service, "kill", "--signal", "SIGSEGV"});
    ASSERT_TRUE(eventually([&] { return reports(service).size() == 1; }, 60, 0.1));
    ASSERT_TRUE(eventually([&] { return runs(service); }, 60, 0.1));
    auto saved = save(reports(service)[0]);
    ASSERT_EQ(0, saved.status) << saved.err;
    auto bytes = contentOf(core);
    EXPECT_LT(16u << 10, bytes.size());
    EXPECT_GT(1u << 20, bytes.size());
    for (auto& secret : secrets) {
      EXPECT_EQ(std::string::npos, bytes.find(secret.bytes)) << secret.name;
    }
  }
  EXPECT_TRUE(secretSeen) << "this test searches for what no program has";

  auto trustd = reports("trustd")[0];

  // Without the switch no core is kept; after a reboot the switch is on again.
  ok({"debug", "cores", "apid", "off"});
  ok({"service", "apid", "kill", "--signal", "SIGSEGV"});
  ASSERT_TRUE(eventually([&] { return reports("apid").size() == 2; }, 60, 0.1));
  auto none = save(reports("apid")[1]);
  EXPECT_EQ(1, none.status);
  EXPECT_TRUE(contains(none.err, "has no core")) << none.err;
  ok({"reboot"});
  ASSERT_TRUE(eventually([&] { return cluster.booted() && reports("apid").size() == 2; }, 60, 0.1));
  EXPECT_EQ(0, save(trustd).status);
  EXPECT_FALSE(contains(ok({"debug", "cores"}), " on "));

  ok({"crashes", trustd, "--remove"});
  EXPECT_TRUE(reports("trustd").empty());
  EXPECT_EQ(1, save(trustd).status);
  EXPECT_TRUE(contains(save(trustd).err, "there is no crash report \"" + trustd + "\""));
}

}  // namespace
}  // namespace talos
