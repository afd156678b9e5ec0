#include "tests/kubernetes/iscsi-target.h"

#include <kj/debug.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace talos {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kDisk = 64ull << 20;
constexpr double kAnswers = 30;

// Where the server listens for tgtadm; without it, all servers of a host would at one path.
std::string controlOf(const std::string& home) {
  return "TGT_IPC_SOCKET=" + home + "/control";
}

}  // namespace

IscsiTarget::IscsiTarget(const KubeCluster& cluster) {
  std::string pattern = "/tmp/iscsi-XXXXXX";  // short: it has a socket's path
  KJ_REQUIRE(mkdtemp(pattern.data()) != nullptr, pattern.c_str());
  home = pattern;
  process = std::make_unique<harness::Background>(std::vector<std::string>{
      "nsenter", "--net=/proc/" + std::to_string(cluster.segment()) + "/ns/net", "env",
      controlOf(home), "tgtd", "-f", "--iscsi", "portal=10.5.0.1:3260"});
  auto answers = [&] { return administer({"--op", "show", "--mode", "system"}).status == 0; };
  if (harness::eventually(answers, 60)) return;
  auto text = process->err();
  process = nullptr;
  fs::remove_all(home);
  KJ_FAIL_REQUIRE("the iSCSI target did not start", text.c_str());
}

IscsiTarget::~IscsiTarget() {
  process = nullptr;
  std::error_code ignored;
  fs::remove_all(home, ignored);
}

harness::Result IscsiTarget::administer(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {"tgtadm", "--lld", "iscsi"});
  return harness::run(arguments, kAnswers, {controlOf(home)});
}

void IscsiTarget::require(std::vector<std::string> arguments) const {
  auto result = administer(std::move(arguments));
  KJ_REQUIRE(result.status == 0, result.out.c_str(), result.err.c_str());
}

void IscsiTarget::offer(const std::string& name, const std::optional<Account>& account) {
  auto id = std::to_string(numbers.emplace(name, numbers.size() + 1).first->second);
  std::ofstream(disk(name)).close();
  fs::resize_file(disk(name), kDisk);
  require({"--op", "new", "--mode", "target", "--tid", id, "--targetname", name});
  require({"--op", "new", "--mode", "logicalunit", "--tid", id, "--lun", "1", "--backing-store",
           disk(name)});
  if (account) {
    require({"--op", "new", "--mode", "account", "--user", account->user, "--password",
             account->password});
    require({"--op", "bind", "--mode", "account", "--tid", id, "--user", account->user});
  }
  require({"--op", "bind", "--mode", "target", "--tid", id, "--initiator-address", "ALL"});
}

std::string IscsiTarget::disk(const std::string& name) const {
  return home + "/disk-" + std::to_string(numbers.at(name));
}

std::string IscsiTarget::connections(const std::string& name) const {
  return administer({"--op", "show", "--mode", "conn", "--tid", std::to_string(numbers.at(name))})
      .out;
}

}  // namespace talos
