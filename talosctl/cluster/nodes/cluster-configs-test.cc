#include "talosctl/cluster/nodes/cluster-configs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/config/config.h"
#include "common/config/test-original-keys.h"
#include "common/testing/printing.h"
#include "common/testing/test-tree.h"
#include "talosctl/cluster/nodes/cluster-plan.h"

namespace talos::cluster {
namespace {

using testing::HasSubstr;

rpc::LocalCluster::Reader planned(capnp::MallocMessageBuilder& message, bool containers,
                                  kj::StringPtr cidr) {
  auto cluster = message.initRoot<rpc::LocalCluster>();
  Request request;
  request.name = kj::str("demo");
  request.masters = 3, request.workers = 2;
  request.cidr = kj::str(cidr);
  request.containers = containers;
  request.accelerator = kj::str("tcg");
  request.encryptState = !containers;
  plan(request, [](unsigned, unsigned, unsigned) { return true; }, cluster);
  return cluster;
}

// Catches: an additional key in the configs of a local cluster, because of which Talos'
// programs refuse to read, edit or patch its nodes.
TEST(ClusterConfigs, HaveOnlyKeysThatTheOriginalKnows) {
  for (bool containers : {true, false}) {
    machined::TestTree folder;
    capnp::MallocMessageBuilder message;
    auto cluster = planned(message, containers, "10.5.0.0/24");
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

// Catches: a document of a patch that the configs of a local cluster lack, or that has no warning.
TEST(ClusterConfigs, HaveTheDocumentsOfPatches) {
  machined::TestTree folder;
  capnp::MallocMessageBuilder message;
  auto cluster = planned(message, true, "10.5.0.0/24");
  auto patches = kj::arr(talosctl::Patch{
      kj::str("--config-patch"),
      kj::str(
          "machine: {nodeLabels: {a: b}}\n---\napiVersion: v1alpha1\nkind: DiscoveryServiceConfig\n"
          "name: data\n")});
  kj::Vector<kj::String> warnings;
  ConfigOptions options;
  options.patches = patches;
  options.warnings = &warnings;
  writeConfigs(cluster, folder.root, options);
  for (auto node : cluster.getNodes()) {
    auto text = readFile(kj::str(folder.root, "/", node.getName(), ".yaml"), 1u << 20);
    EXPECT_THAT(text.cStr(),
                HasSubstr("\n---\napiVersion: v1alpha1\nkind: DiscoveryServiceConfig\n"));
  }
  EXPECT_THAT(kj::strArray(warnings, "\n").cStr(), HasSubstr("DiscoveryServiceConfig documents"));
}

// Catches: a cluster with metrics whose nodes do not serve them, or at another port than the one
// that this host forwards; the key in the configs of a cluster without metrics.
TEST(ClusterConfigs, MetricsAreServedOnRequest) {
  for (bool withMetrics : {false, true}) {
    machined::TestTree folder;
    capnp::MallocMessageBuilder message;
    planned(message, true, "10.5.0.0/24");
    auto cluster = message.getRoot<rpc::LocalCluster>();
    cluster.setWithMetrics(withMetrics);
    writeConfigs(cluster.asReader(), folder.root, {});
    for (auto node : cluster.asReader().getNodes()) {
      auto name = kj::str(node.getName(), ".yaml");
      auto text = readFile(kj::str(folder.root, "/", name), 1u << 20);
      auto parsed = config::parse(text, name);
      ASSERT_TRUE(parsed.good());
      EXPECT_EQ(parsed.get().getMachine().hasMetrics(), withMetrics) << name.cStr();
      EXPECT_EQ(parsed.get().getMachine().getMetrics().getPort(), kMetricsPort);
    }
  }
}

// Catches: nodes in a network that Kubernetes routes itself: they have no address for Kubernetes
// and are never Ready.
TEST(ClusterConfigs, NodesAreNotInANetworkOfKubernetes) {
  struct {
    kj::StringPtr cidr;
    const char* error;
  } table[] = {{"10.99.0.0/24",
                "the network of the nodes, 10.99.0.0/24, overlaps that of Services, "
                "10.96.0.0/12 (cluster.network.serviceSubnets); use another --cidr"},
               {"10.244.3.0/24", "overlaps that of pods, 10.244.0.0/16"},
               {"10.240.0.0/13", "overlaps that of pods"}};
  for (auto& row : table) {
    machined::TestTree folder;
    capnp::MallocMessageBuilder message;
    auto cluster = planned(message, true, row.cidr);
    kj::String error;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { writeConfigs(cluster, folder.root, {}); })) {
      error = messageOf(*e);
    }
    EXPECT_THAT(error.cStr(), HasSubstr(row.error)) << row.cidr.cStr();
  }
}

}  // namespace
}  // namespace talos::cluster
