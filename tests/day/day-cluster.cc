#include "tests/day/day-cluster.h"

#include <kj/debug.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <regex>

#include "common/base/node-layout.h"

namespace talos::day {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(300);

std::vector<std::string> flags() {
  auto lifetime = std::to_string(DayCluster::kCertificates) + "s";
  return {"--extra-boot-kernel-args", "talos.debug.certificates=" + lifetime, "--config-patch",
          "{cluster: {trustd: {certLifetime: " + lifetime + "}}}"};
}

// Reads them through the root of the node's process 1.
Credentials etcdCredentials(pid_t process1) {
  auto folder = "/proc/" + std::to_string(process1) + "/root/etc/kubernetes/pki/etcd/";
  auto text = [&](const char* name) {
    auto content = harness::slurp(folder + name);
    KJ_REQUIRE(!content.empty(), "the node has no credentials of etcd", folder.c_str(), name);
    return kj::str(content.c_str());
  };
  return {text("ca.crt"), text("peer.crt"), pki::Pem(text("peer.key"))};
}

}  // namespace

DayCluster::DayCluster() : VipNodes("day", flags(), kNodes - kControlPlanes) {
  if (!canSlowLinks()) {
    lacking.insert(Kind::kSlowLink);
    reasons.emplace_back("slow-link: the host's kernel has no netem");
  }
  auto image = getenv("IMAGE");
  if (image == nullptr || !std::filesystem::exists(std::string(image) + "/parts/tree")) {
    lacking.insert({Kind::kUpgrade, Kind::kRollback, Kind::kBadImage});
    reasons.emplace_back("upgrade, rollback, bad-image: no image was made; run make image");
  }
  follower = std::jthread([this](const std::stop_token& over) {
    for (; !over.stop_requested(); std::this_thread::sleep_for(kBetweenLooks)) followStarts();
  });
}

DayCluster::~DayCluster() noexcept {
  follower.request_stop();
  if (follower.joinable()) follower.join();
}

void DayCluster::makeImages(unsigned salt) {
  if (lacking.contains(Kind::kUpgrade)) return;
  static const Fault kFaults[] = {{"usr/bin/apid", "exit"},
                                  {"usr/bin/vipd", "exit"},
                                  {"usr/bin/networkd", "hang"},
                                  {"usr/bin/machined", "exit"},
                                  {"usr/bin/etcd", "exit"}};
  auto folderOf = [&](const char* name) {
    auto folder = cluster.folder() + "/" + name;
    std::filesystem::create_directories(folder);
    return folder;
  };
  good = std::make_unique<SystemImages>(folderOf("good-image"));
  bad = std::make_unique<SystemImages>(folderOf("bad-image"));
  goodImage = good->make("v9.9.1", {});
  badImage = bad->make("v9.9.2", {kFaults[salt % std::size(kFaults)]});
}

std::string DayCluster::allEndpoints() const {
  std::string all;
  for (unsigned i = 0; i < kControlPlanes; ++i) {
    all += (i > 0 ? "," : "") + cluster.endpoint(address(i));
  }
  return all;
}

harness::Result DayCluster::call(unsigned node, std::vector<std::string> arguments,
                                 double deadlineSeconds) const {
  std::vector<std::string> line = {
      "-e", node == kWorker ? allEndpoints() : cluster.endpoint(address(node)), "-n",
      address(node)};
  line.insert(line.end(), arguments.begin(), arguments.end());
  return cluster.talosctl(line, deadlineSeconds);
}

std::string DayCluster::shown(unsigned node, const std::vector<std::string>& arguments) const {
  std::vector<std::string> line = {"--timeout", "10s"};
  line.insert(line.end(), arguments.begin(), arguments.end());
  auto result = call(node, line, 30);
  return result.out + result.err;
}

std::string DayCluster::config(unsigned node) const {
  return call(node, {"--timeout", "10s", "read", "/system/state/config.yaml"}, 30).out;
}

std::vector<Member> DayCluster::members() const {
  std::vector<Member> all;
  for (unsigned i = 0; i < kControlPlanes; ++i) {
    all.push_back({Endpoint{Ip::require(address(i).c_str()), kEtcdPort},
                   [this, i] { return etcdCredentials(cluster.process(nodeName(i))); }});
  }
  return all;
}

std::string DayCluster::member(unsigned node) const {
  auto text = shown(node, {"get", "etcdstatus", "-o", "yaml"});
  std::smatch match;
  static const std::regex member("member: \"?([0-9a-f]+)");
  return std::regex_search(text, match, member) ? match[1].str() : std::string();
}

}  // namespace talos::day
