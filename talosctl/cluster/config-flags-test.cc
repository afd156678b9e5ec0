#include "talosctl/cluster/config-flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/config/config.h"
#include "common/talosconfig/talosconfig.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/cluster/machines/qemu-arguments.h"
#include "talosctl/cluster/nodes/cluster-plan.h"

namespace talos::cluster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Scratch {
  kj::String path;
  Scratch() {
    char name[] = "/tmp/talosctl-flags-XXXXXX";
    path = kj::str(mkdtemp(name));
  }
  ~Scratch() { removeTree(path); }
};

struct Flags : public ::testing::Test {
  talosctl::ConsoleFixture test;
  kj::String said;
  ~Flags() noexcept override {}
  // Runs the check of the flags, as a command that has only these flags.
  int run(std::initializer_list<kj::StringPtr> words) {
    auto root = talosctl::newRoot();
    auto& create = root->add("create", "Create");
    for (auto name : {"install-image", "dns-domain", "kubernetes-version", "registry-mirror"}) {
      create.flag({.name = name, .kind = talosctl::FlagKind::kText});
    }
    create.flag({.name = "with-debug"});
    addConfigFlags(create);
    create.run = [](talosctl::Invocation& call) -> kj::Promise<int> {
      checkConfigFlags(call);
      return 0;
    };
    kj::Vector<kj::StringPtr> all;
    all.add("create");
    for (auto word : words) all.add(word);
    int status = talosctl::run(test.deps, *root, all, kj::NEVER_DONE).wait(test.io.waitScope);
    said = test.console.takeErr();
    return status;
  }
};

// Catches: a flag of the documents that is accepted and ignored, or refused without a reason.
TEST_F(Flags, WhatCannotBeSaysWhatItWaitsFor) {
  struct {
    std::initializer_list<kj::StringPtr> arguments;
    kj::StringPtr error;  // empty: accepted
  } table[] = {
      {{"--encrypt-state", "--encrypt-ephemeral"}, ""},
      {{"--user-disk", "/var/lib/x:1GB:/var/lib/y:300MiB,/var/lib/z:2GB"}, ""},
      {{"--user-disk", "/var/lib/x:100"}, "\"100\" is not a valid size; it must be 300MiB"},
      {{"--user-disk", "/var/lib/x"}, "each mount point needs a size"},
      {{"--user-disk", "/opt:1GB"}, "\"/opt\" is not a path below /var"},
      {{"--arch", "amd64"}, ""},
      {{"--arch", "arm64"}, "--arch: nodes of local clusters are for amd64"},
      {{"--use-vip=false"}, ""},
      {{"--use-vip"}, ""},
      {{"--cni-bin-path", "/x"}, "without CNI plugins"},
      {{"-p", "80:80/tcp"}, "publish no ports"},
      {{}, ""},
  };
  for (auto& row : table) {
    int status = run(row.arguments);
    if (row.error.size() == 0) {
      EXPECT_EQ(status, 0) << said.cStr();
    } else {
      EXPECT_EQ(status, 1) << row.error.cStr();
      EXPECT_THAT(said.cStr(), HasSubstr(row.error.cStr()));
    }
  }
}

TEST_F(Flags, ConflictingFlagsAreRefused) {
  EXPECT_EQ(run({"--endpoint", "x", "--init-node-as-endpoint"}), 1);
  EXPECT_THAT(said.cStr(), HasSubstr("cannot be used together"));
  EXPECT_EQ(run({"--input-dir", "x", "--registry-mirror", "a=http://b"}), 1);
  EXPECT_THAT(said.cStr(), HasSubstr("--registry-mirror and --input-dir"));
  EXPECT_EQ(run({"--input-dir", "x"}), 0);
}

// --- what they do to the configs

struct Written {
  Scratch scratch;
  capnp::MallocMessageBuilder message;
  rpc::LocalCluster::Builder cluster = message.initRoot<rpc::LocalCluster>();

  explicit Written(bool ipv4 = true, bool ipv6 = false) {
    Request request;
    request.containers = !ipv4;
    request.ipv4 = ipv4, request.ipv6 = ipv6;
    request.name = kj::str("demo");
    request.masters = 2, request.workers = 1;
    request.cidr = kj::str("10.5.0.0/24");
    request.accelerator = kj::str("tcg");
    plan(request, [](unsigned, unsigned, unsigned) { return true; }, cluster);
  }
  Talosconfig write(const ConfigOptions& options) {
    return Talosconfig::load(writeConfigs(cluster, scratch.path, options));
  }
  config::MachineConfig node(kj::StringPtr name) {
    auto parsed = config::parse(readFile(kj::str(scratch.path, "/", name, ".yaml")), name);
    EXPECT_TRUE(parsed.good()) << render(parsed.problems()).cStr();
    return parsed;
  }
};

// Catches: pods of one family on nodes of both, an endpoint without brackets, a name server that
// the nodes cannot reach, a shared address of a family that the nodes do not have.
TEST(ClusterConfigs, PodsAndServicesHaveTheFamiliesOfTheNodes) {
  struct {
    bool ipv4, ipv6;
    kj::StringPtr pods, services, endpoint, nameservers, vip;
  } table[] = {
      {true, false, "10.244.0.0/16", "10.96.0.0/12", "https://10.5.0.50:6443", "10.5.0.1",
       "10.5.0.50"},
      {true, true, "10.244.0.0/16 fc00:db8:10::/56", "10.96.0.0/12 fc00:db8:20::/112",
       "https://10.5.0.50:6443", "10.5.0.1", "10.5.0.50"},
      {false, true, "fc00:db8:10::/56", "fc00:db8:20::/112", "https://[fd74:616c:a05::32]:6443", "",
       "fd74:616c:a05::32"},
  };
  for (auto& row : table) {
    Written written(row.ipv4, row.ipv6);
    written.write({.generate = {}, .useVip = true});
    auto config = written.node("demo-master-1");
    auto network = config.get().getMachine().getNetwork();
    auto cluster = config.get().getCluster();
    EXPECT_EQ(row.pods, kj::strArray(cluster.getNetwork().getPodSubnets(), " "));
    EXPECT_EQ(row.services, kj::strArray(cluster.getNetwork().getServiceSubnets(), " "));
    EXPECT_EQ(row.endpoint, kj::StringPtr(cluster.getControlPlane().getEndpoint()));
    EXPECT_EQ(row.nameservers, kj::strArray(network.getNameservers(), " "));
    EXPECT_EQ(row.vip, kj::StringPtr(network.getInterfaces()[0].getVip().getIp()));
  }
}

// Catches: a virtual machine without its second address or default route, also with a config of the
// user.
TEST(ClusterConfigs, AVirtualMachineHasTheAddressesOfEachFamily) {
  auto check = [](config::MachineConfig config) {
    auto links = config.get().getMachine().getNetwork().getInterfaces();
    kj::Vector<kj::String> addresses, routes;
    for (auto link : links) {
      EXPECT_STREQ("eth0", link.getInterface().cStr());
      if (link.getCidr().size() > 0) addresses.add(kj::str(link.getCidr()));
      for (auto address : link.getAddresses()) addresses.add(kj::str(address));
      for (auto route : link.getRoutes()) {
        routes.add(kj::str(route.getNetwork(), " by ", route.getGateway()));
      }
    }
    EXPECT_EQ(kj::strArray(addresses, " "), "10.5.0.4/24 fd74:616c:a05::4/64");
    EXPECT_EQ(kj::strArray(routes, ", "), "0.0.0.0/0 by 10.5.0.1, ::/0 by fd74:616c:a05::1");
  };
  Written written(true, true);
  written.write({});
  check(written.node("demo-worker-1"));

  Scratch own;
  auto generated = config::generate("mine", "https://10.5.0.2:6443");
  auto put = [&](kj::StringPtr name, kj::StringPtr text) {
    writeFileAtomically(kj::str(own.path, "/", name), text.asArray(), 0600);
  };
  put("controlplane.yaml", generated.controlplane);
  put("join.yaml", generated.join);
  put("talosconfig", generated.talosconfig);
  Written existing(true, true);
  existing.write({.generate = {}, .inputFolder = own.path});
  check(existing.node("demo-worker-1"));
}

kj::String endpointsOf(Talosconfig& config) {
  return kj::strArray(config.resolve().endpoints, " ");
}

// Catches: an installed node that is unreachable after a reset because its disk does not know its
// address; a node that is not installed and gets kernel parameters.
TEST(ClusterConfigs, AnInstalledNodeKnowsItsAddressBeforeItsConfig) {
  Written written;
  auto list = [&]() {
    auto worker = written.node("demo-worker-1");
    return kj::strArray(worker.get().getMachine().getInstall().getExtraKernelArgs(), " ");
  };
  written.write({});
  EXPECT_STREQ(list().cStr(), "");
  ConfigOptions options;
  options.generate.installArguments = installedKernelArguments();
  written.write(options);
  EXPECT_THAT(list().cStr(), testing::StartsWith("console=ttyS0 quiet "));
  EXPECT_THAT(list().cStr(),
              testing::EndsWith(" ip=10.5.0.4::10.5.0.1:255.255.255.0:demo-worker-1:eth0:off"));
}

// Catches: nodes without an uplink that call the gateway for names; nodes with an uplink that have
// no name server.
TEST(ClusterConfigs, TheGatewayIsTheNameServerWhereThereIsAWayOut) {
  Written written;
  written.write({});
  auto worker = written.node("demo-worker-1");
  auto servers = worker.get().getMachine().getNetwork().getNameservers();
  ASSERT_EQ(servers.size(), 1u);
  EXPECT_STREQ(servers[0].cStr(), "10.5.0.1");
  written.cluster.setWithoutUplink(true);
  written.write({});
  EXPECT_EQ(written.node("demo-worker-1").get().getMachine().getNetwork().getNameservers().size(),
            0u);
}

TEST(ClusterConfigs, EndpointsOfTheTalosconfig) {
  Written written;
  auto both = written.write({});
  auto nodes = written.cluster.getNodes();
  EXPECT_EQ(endpointsOf(both), kj::str(nodes[0].getEndpoint(), " ", nodes[1].getEndpoint()));
  auto first = written.write({.generate = {}, .firstNodeIsEndpoint = true});
  EXPECT_EQ(endpointsOf(first), kj::str(nodes[0].getEndpoint()));
  auto other = written.write({.generate = {}, .endpoint = "cluster.example.org"});
  EXPECT_STREQ(endpointsOf(other).cStr(), "cluster.example.org");
  auto master = written.node("demo-master-1");
  auto sans = master.get().getMachine().getCertSANs();
  ASSERT_EQ(sans.size(), 2u) << "its certificate is not for the endpoint";
  EXPECT_STREQ(sans[1].cStr(), "cluster.example.org");
}

// Catches: a cluster with other secrets than those of the folder, or with one node's address twice.
TEST(ClusterConfigs, ExistingOnesKeepTheirSecretsAndGetTheNodesSettings) {
  Scratch input;
  auto made = config::generate("mine", "https://cluster.example.org:6443");
  auto put = [&](kj::StringPtr name, kj::StringPtr text) {
    writeFileAtomically(kj::str(input.path, "/", name), text, 0600);
  };
  put("controlplane.yaml", made.controlplane);
  put("join.yaml", made.join);
  auto both = Talosconfig::parse(made.talosconfig, "made");
  both.merge(Talosconfig::parse(config::generate("other", "https://other").talosconfig, "other"));
  both.select("mine");
  put("talosconfig", both.toYaml());
  Written written;
  auto client = written.write({.generate = {}, .inputFolder = input.path});
  auto theirs = Talosconfig::parse(made.talosconfig, "made");
  EXPECT_STREQ(client.resolve().ca.cStr(), theirs.resolve().ca.cStr());
  EXPECT_STREQ(client.currentName().cStr(), "mine");
  EXPECT_EQ(client.contexts().size(), 1u) << "what is the user's other clusters'";
  auto nodes = written.cluster.getNodes();
  EXPECT_EQ(endpointsOf(client), kj::str(nodes[0].getEndpoint(), " ", nodes[1].getEndpoint()));
  auto given = config::parse(made.controlplane, "made");
  for (auto name : {"demo-master-1", "demo-master-2"}) {
    auto config = written.node(name);
    EXPECT_STREQ(config.get().getMachine().getToken().cStr(),
                 given.get().getMachine().getToken().cStr());
    EXPECT_STREQ(config.get().getMachine().getNetwork().getHostname().cStr(), name);
    EXPECT_STREQ(config.get().getCluster().getControlPlane().getEndpoint().cStr(),
                 "https://cluster.example.org:6443");
  }
  auto worker = written.node("demo-worker-1");
  auto link = worker.get().getMachine().getNetwork().getInterfaces()[0];
  EXPECT_STREQ(link.getCidr().cStr(), "10.5.0.4/24");

  put("join.yaml", made.controlplane);
  auto e = kj::runCatchingExceptions(
      [&] { written.write({.generate = {}, .inputFolder = input.path}); });
  EXPECT_THAT(kj::str(KJ_ASSERT_NONNULL(e)).cStr(), HasSubstr("machine.type"));
}

// Catches: the folder of another release that is refused; a change of the user in the one of two
// files that is not read.
TEST(ClusterConfigs, TheConfigOfTheWorkersHasEitherName) {
  auto made = config::generate("mine", "https://cluster.example.org:6443");
  auto other = config::generate("other", "https://cluster.example.org:6443");
  struct {
    kj::StringPtr worker, join;  // empty: no such file
    kj::StringPtr used, error;
  } table[] = {
      {made.join, "", made.join, ""},
      {"", made.join, made.join, ""},
      {made.join, made.join, made.join, ""},
      {other.join, "", other.join, ""},
      {"", other.join, other.join, ""},
      {made.join, other.join, "", "under two names, and differ; remove one of them"},
      {other.join, made.join, "", "under two names, and differ; remove one of them"},
      {"", "", "", "/worker.yaml: no such file"},
      {made.controlplane, "", "", "/worker.yaml: machine.type does not match"},
  };
  for (auto& row : table) {
    Scratch input;
    auto put = [&](kj::StringPtr name, kj::StringPtr text) {
      if (text.size() > 0) writeFileAtomically(kj::str(input.path, "/", name), text, 0600);
    };
    put("controlplane.yaml", made.controlplane);
    put("talosconfig", made.talosconfig);
    put("worker.yaml", row.worker);
    put("join.yaml", row.join);
    Written written;
    auto failure = kj::runCatchingExceptions(
        [&] { written.write({.generate = {}, .inputFolder = input.path}); });
    KJ_IF_MAYBE (e, failure) {
      ASSERT_GT(row.error.size(), 0u) << kj::str(*e).cStr();
      EXPECT_THAT(kj::str(*e).cStr(), HasSubstr(row.error.cStr()));
      continue;
    }
    ASSERT_EQ(row.error.size(), 0u) << row.error.cStr();
    auto worker = written.node("demo-worker-1");
    auto given = config::parse(row.used, "given");
    EXPECT_STREQ(worker.get().getMachine().getToken().cStr(),
                 given.get().getMachine().getToken().cStr());
  }
}

}  // namespace
}  // namespace talos::cluster
