#include "tests/cuts/volatile-cluster.h"

#include <kj/debug.h>
#include <stdlib.h>

#include <filesystem>

#include "common/base/error.h"

namespace talos::cuts {

ServedDisks::ServedDisks() {
  char path[] = "/tmp/talos-disks-XXXXXX";
  KJ_REQUIRE(mkdtemp(path) != nullptr);
  socketFolder = path;
  server.emplace(socketFolder + "/nbd.sock");
}

ServedDisks::~ServedDisks() {
  server.reset();
  std::error_code ignored;
  std::filesystem::remove_all(socketFolder, ignored);
}

std::vector<std::string> ServedDisks::with(std::vector<std::string> createFlags) const {
  createFlags.insert(createFlags.end(), {"--disk-server", server->socket()});
  return createFlags;
}

VolatileCluster::VolatileCluster(const std::string& name,
                                 const std::vector<std::string>& createFlags,
                                 double deadlineSeconds)
    : Cluster(name, with(createFlags), deadlineSeconds), servedBy(&*server) {}

void VolatileCluster::kill(const std::string& node) const {
  ok({"cluster", "node", "kill", node}, 120);
  disks().waitUntilOff(node);
}

std::optional<disk::Cut> VolatileCluster::killAtWrite(const std::string& node, uint64_t write,
                                                      uint64_t seed, double withinSeconds) const {
  std::optional<disk::Cut> cut;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&] { cut = disks().cut(node, write, seed, withinSeconds); })) {
    if (kindOf(*e) != ErrorKind::kDeadlineExceeded) kj::throwFatalException(kj::mv(*e));
    return {};
  }
  kill(node);
  return cut;
}

disk::Cut VolatileCluster::killNow(const std::string& node, uint64_t seed) const {
  auto cut = disks().cut(node, 0, seed, 60);
  kill(node);
  return cut;
}

}  // namespace talos::cuts
