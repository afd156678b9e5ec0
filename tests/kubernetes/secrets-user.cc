#include "tests/kubernetes/secrets-user.h"

namespace talos {

using harness::contains;
using harness::Result;

SecretsUser::SecretsUser(const KubeCluster& cluster, const std::string& prefix,
                         const std::string& kubeconfig)
    : cluster(cluster), prefix(prefix), kubeconfig(kubeconfig) {
  for (auto& node : cluster.nodes) {
    if (node.controlPlane) servers.push_back("https://" + node.address + ":6443");
  }
  thread = std::thread([this] { run(); });
}

SecretsUser::~SecretsUser() {
  stop();
}

void SecretsUser::stop() {
  over = true;
  if (thread.joinable()) thread.join();
}

void SecretsUser::checkStopped(unsigned rounds) {
  stop();
  printf("%s: %u rounds; %u calls were not answered by the first API server, %u by none\n",
         prefix.c_str(), done.load(), refused, lost);
  fflush(stdout);
  EXPECT_GT(done, rounds);
  EXPECT_EQ(lost, 0u);
  EXPECT_TRUE(wrong.empty()) << wrong.size() << ": " << wrong[0];
}

Result SecretsUser::at(size_t server, std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(),
                   {"--server", servers[server % servers.size()], "--request-timeout=4s"});
  auto words = cluster.kubectlCommand(arguments);
  if (!kubeconfig.empty()) words[2] = kubeconfig;
  return cluster.in(cluster.segment(), words, 15);
}

// Sorts a failed call: an API server that answers and refuses the client, cannot decrypt, or has
// lost a Secret is wrong; other failures are counted.
void SecretsUser::judge(const Result& result) {
  for (auto part : {"transform", "prefix", "nternal error", "InternalError", "NotFound",
                    "Unauthorized", "must be logged in", "x509"}) {
    if (contains(result.err, part)) {
      wrong.push_back(result.err);
      return;
    }
  }
  ++refused;
}

bool SecretsUser::anywhere(size_t first, const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < servers.size(); ++i) {
    auto result = at(first + i, arguments);
    // Written by a call whose answer was lost.
    if (result.status == 0 || contains(result.err, "already exists")) return true;
    judge(result);
  }
  ++lost;
  return false;
}

void SecretsUser::run() {
  for (unsigned n = 0; !over; ++n) {
    auto name = prefix + "-" + std::to_string(n);
    if (!anywhere(n, {"create", "secret", "generic", name, "--from-literal=v=" + name})) continue;
    for (size_t reader = 0; reader < servers.size(); ++reader) {
      auto read = at(reader, {"get", "secret", name, "-o", "jsonpath={.metadata.name}"});
      if (read.status != 0) {
        judge(read);
      } else if (read.out != name) {
        wrong.push_back("read " + read.out);
      }
    }
    ++done;
  }
}

}  // namespace talos
