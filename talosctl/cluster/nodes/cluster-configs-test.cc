#include "talosctl/cluster/nodes/cluster-configs.h"

#include <gtest/gtest.h>

#include "common/base/file.h"
#include "common/config/test-original-keys.h"
#include "common/testing/printing.h"
#include "common/testing/test-tree.h"
#include "talosctl/cluster/nodes/cluster-plan.h"

namespace talos::cluster {
namespace {

// Catches: a key of ours in the configs of a local cluster, for which the original's programs
// refuse to read, edit or patch its nodes.
TEST(ClusterConfigs, HaveOnlyKeysThatTheOriginalKnows) {
  for (bool containers : {true, false}) {
    machined::TestTree folder;
    capnp::MallocMessageBuilder message;
    auto cluster = message.initRoot<rpc::LocalCluster>();
    Request request;
    request.name = kj::str("demo");
    request.masters = 3, request.workers = 2;
    request.cidr = kj::str("10.5.0.0/24");
    request.containers = containers;
    request.accelerator = kj::str("tcg");
    request.encryptState = !containers;
    plan(request, [](unsigned, unsigned, unsigned) { return true; }, cluster);
    ConfigOptions options;
    options.useVip = true;
    options.encryptState = options.encryptEphemeral = true;
    writeConfigs(cluster, folder.root, options);
    for (auto node : cluster.getNodes()) {
      auto text = readFile(kj::str(folder.root, "/", node.getName(), ".yaml"), 1u << 20);
      auto unknown = config::OriginalKeys::unknownIn(text);
      EXPECT_EQ("", kj::strArray(unknown, " ")) << node.getName().cStr();
    }
  }
}

}  // namespace
}  // namespace talos::cluster
