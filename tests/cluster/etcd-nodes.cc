#include "tests/cluster/etcd-nodes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using harness::Result;

std::vector<std::string> flagsFor(unsigned masters, std::vector<std::string> more) {
  std::vector<std::string> flags = {"--provisioner", "container", "--masters",
                                    std::to_string(masters)};
  if (std::find(more.begin(), more.end(), "--workers") == more.end()) {
    flags.insert(flags.end(), {"--workers", "0"});
  }
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

}  // namespace

size_t votersIn(const std::string& members) {
  static const std::regex voter("\\bfalse +(true|false) +OK");
  return std::distance(std::sregex_iterator(members.begin(), members.end(), voter),
                       std::sregex_iterator());
}

EtcdNodes::EtcdNodes(const std::string& name, unsigned masters, std::vector<std::string> flags,
                     double comesUpSeconds)
    : cluster_(name, flagsFor(masters, std::move(flags)), comesUpSeconds) {
  for (unsigned i = 1; i <= masters; ++i) {
    nodes.push_back({name + "-master-" + std::to_string(i), "10.5.0." + std::to_string(i + 1)});
  }
}

Result EtcdNodes::at(const EtcdNode& node, std::vector<std::string> arguments,
                     double deadline) const {
  std::vector<std::string> command = {"-e", cluster_.endpoint(node.address), "-n", node.address};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return cluster_.talosctl(command, deadline);
}

std::string EtcdNodes::members(const EtcdNode& node) const {
  auto shown = at(node, {"--timeout", "20s", "etcd", "members"});
  return shown.out + shown.err;
}

size_t EtcdNodes::voters(const EtcdNode& node) const {
  return votersIn(members(node));
}

bool EtcdNodes::haveVoters(const EtcdNode& node, size_t count, double deadline) const {
  return eventually([&] { return voters(node) == count; }, deadline);
}

std::string EtcdNodes::statusOf(const EtcdNode& node) const {
  auto shown = at(node, {"--timeout", "20s", "get", "etcdstatus", "-o", "yaml"});
  return shown.out + shown.err;
}

bool EtcdNodes::says(const EtcdNode& node, const std::string& text, double deadline) const {
  return eventually([&] { return contains(statusOf(node), text); }, deadline);
}

std::string EtcdNodes::clusterId(const EtcdNode& node) const {
  auto shown = at(node, {"--timeout", "20s", "etcd", "status", "-o", "json"});
  std::smatch match;
  static const std::regex id("\"clusterId\": *\"?([0-9]+)");
  return std::regex_search(shown.out, match, id) ? match[1].str() : std::string();
}

std::string EtcdNodes::bootId(const EtcdNode& node) const {
  return at(node, {"--timeout", "20s", "read", "/proc/sys/kernel/random/boot_id"}).out;
}

void EtcdNodes::kill(const EtcdNode& node) const {
  cluster_.ok({"cluster", "node", "kill", node.name}, 120);
}

void EtcdNodes::start(const EtcdNode& node) const {
  cluster_.ok({"cluster", "node", "start", node.name}, 120);
}

void EtcdNodes::reinstall(const EtcdNode& node) const {
  auto reset =
      at(node, {"reset", "--graceful=false", "--reboot", "--system-labels-to-wipe", "EPHEMERAL"});
  EXPECT_EQ(0, reset.status) << reset.err;
}

void EtcdNodes::erase(const EtcdNode& node) const {
  cluster_.erase(node.name);
}

Result EtcdNodes::etcdctl(const EtcdNode& node, std::vector<std::string> arguments) const {
  auto pid = std::to_string(cluster_.process(node.name));
  auto pki = "/proc/" + pid + "/root/etc/kubernetes/pki/etcd/";
  // The certificates are in a mount namespace that this one does not enter.
  std::vector<std::string> command = {"nsenter",
                                      "-t",
                                      pid,
                                      "-n",
                                      "etcdctl",
                                      "--endpoints=https://127.0.0.1:2379",
                                      "--cacert=" + pki + "ca.crt",
                                      "--cert=" + pki + "peer.crt",
                                      "--key=" + pki + "peer.key",
                                      "--dial-timeout=5s",
                                      "--command-timeout=10s"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return harness::run(command, 30, {"ETCDCTL_API=3"});
}

bool EtcdNodes::put(const EtcdNode& node, const std::string& key, const std::string& value) const {
  return contains(etcdctl(node, {"put", key, value}).out, "OK");
}

std::string EtcdNodes::get(const EtcdNode& node, const std::string& key) const {
  auto shown = etcdctl(node, {"get", "--print-value-only", key});
  return shown.status == 0 ? shown.out : shown.err;
}

}  // namespace talos
