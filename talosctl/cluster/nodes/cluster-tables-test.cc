#include "talosctl/cluster/nodes/cluster-tables.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace talos::cluster {
namespace {

kj::Array<ListedCluster> twoClusters() {
  auto rows = kj::heapArray<ListedCluster>(2);
  rows[0].name = kj::str("a");
  rows[0].current = rows[0].running = true;
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  auto cluster = message->initRoot<rpc::LocalCluster>();
  cluster.setProvisioner("container");
  cluster.setCidr("10.5.0.0/24");
  auto nodes = cluster.initNodes(3);
  for (auto i : kj::range(0u, 3u)) nodes[i].setType(i < 2 ? "controlplane" : "join");
  nodes[0].setEndpoint("127.7.0.2");
  rows[0].message = kj::mv(message);
  rows[1].name = kj::str("b");
  rows[1].error = kj::str("state.yaml:1:1: \"x\"");
  return rows;
}

// Catches: one unreadable cluster that hides the others, or that is shown as off.
TEST(ClusterList, ShowsAllInEachForm) {
  auto rows = twoClusters();
  EXPECT_STREQ(
      renderList(rows).cStr(),
      "CURRENT   NAME   PROVISIONER   CIDR          CONTROL PLANE   WORKERS   ENDPOINT    STATE\n"
      "*         a      container     10.5.0.0/24   2               1         127.7.0.2   running\n"
      "          b                                                                        "
      "unreadable\n");
  EXPECT_STREQ(listJson(rows).cStr(),
               "[\n    {\"name\": \"a\", \"current\": true, \"state\": \"running\", "
               "\"provisioner\": \"container\", \"cidr\": \"10.5.0.0/24\", \"controlPlanes\": 2, "
               "\"workers\": 1, \"endpoint\": \"127.7.0.2\"},\n    {\"name\": \"b\", \"current\": "
               "false, \"state\": \"unreadable\", \"error\": \"state.yaml:1:1: \\\"x\\\"\"}\n]\n");
  EXPECT_STREQ(listYaml(rows).cStr(),
               "- name: \"a\"\n  current: true\n  state: \"running\"\n  provisioner: "
               "\"container\"\n  cidr: \"10.5.0.0/24\"\n  controlPlanes: 2\n  workers: 1\n  "
               "endpoint: \"127.7.0.2\"\n- name: \"b\"\n  current: false\n  state: "
               "\"unreadable\"\n  error: \"state.yaml:1:1: \\\"x\\\"\"\n");
  EXPECT_STREQ(listJson(nullptr).cStr(), "[]\n");
}

// Catches: a state file without nodes, which is read beyond the end of the list.
TEST(ClusterList, ShowsAClusterWithoutNodes) {
  auto rows = kj::heapArray<ListedCluster>(1);
  rows[0].name = kj::str("a");
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  auto cluster = message->initRoot<rpc::LocalCluster>();
  cluster.initNodes(0);
  cluster.setNetworkName(kj::str(kj::repeat('n', 1000)));  // this text follows the list in memory
  cluster.setCidr("10.5.8.0/24");
  cluster.setProvisioner("container");
  rows[0].message = kj::mv(message);
  EXPECT_STREQ(
      renderList(rows).cStr(),
      "CURRENT   NAME   PROVISIONER   CIDR          CONTROL PLANE   WORKERS   ENDPOINT   STATE\n"
      "          a      container     10.5.8.0/24   0               0                    off\n");
  EXPECT_TRUE(listJson(rows).endsWith("\"workers\": 0, \"endpoint\": \"\"}\n]\n"));
}

using ::testing::HasSubstr;
using ::testing::Not;

// Catches: a container with a disk or with the CPUs of a virtual machine, a state without its
// reason, an accelerator without virtual machines.
TEST(ClusterShow, BothKindsOfNodes) {
  capnp::MallocMessageBuilder message;
  auto cluster = message.initRoot<rpc::LocalCluster>();
  cluster.setProvisioner("container");
  cluster.setAccelerator("tcg");
  auto nodes = cluster.initNodes(2);
  nodes[0].setName("a");
  nodes[0].setProvisioner("container");
  nodes[0].setMilliCpus(1050);
  nodes[0].setState("failed");
  nodes[0].setError("process 1 killed by signal 9");
  nodes[1].setName("b");
  nodes[1].setCpus(2);
  nodes[1].setDisk(6000000000);
  nodes[1].setState("off");
  auto text = renderShow(cluster);
  EXPECT_THAT(text.cStr(), HasSubstr("1.05   0 B   -        "));
  EXPECT_THAT(text.cStr(), HasSubstr("container     failed: process 1 killed by signal 9\n"));
  EXPECT_THAT(text.cStr(), HasSubstr("2.00   0 B   6.0 GB   "));
  EXPECT_THAT(text.cStr(), HasSubstr("qemu          off\n"));
  EXPECT_THAT(text.cStr(), HasSubstr("ACCELERATOR"));
  nodes[1].setProvisioner("container");
  nodes[1].setAddress("10.5.0.3");
  nodes[1].setAddress6("fd00::3");
  EXPECT_THAT(renderShow(cluster).cStr(), HasSubstr(" 10.5.0.3,fd00::3 "));
  EXPECT_THAT(renderShow(cluster).cStr(), Not(HasSubstr("ACCELERATOR")));
}

// Catches: URLs of a cluster without metrics; a URL that this host does not reach; a name that is
// not in the certificate of a worker.
TEST(ClusterShow, MetricsHaveUrlAndServerName) {
  capnp::MallocMessageBuilder message;
  auto cluster = message.initRoot<rpc::LocalCluster>();
  auto nodes = cluster.initNodes(1);
  nodes[0].setName("demo-worker-1");
  nodes[0].setType("join");
  nodes[0].setAddress("10.5.0.3");
  nodes[0].setEndpoint("127.7.0.3");
  EXPECT_THAT(renderShow(cluster).cStr(), Not(HasSubstr("METRICS")));
  cluster.setWithMetrics(true);
  EXPECT_THAT(renderShow(cluster).cStr(),
              HasSubstr("\nMETRICS, for clients with a certificate of the talosconfig:\n\n"
                        "NAME            URL                               SERVER NAME\n"
                        "demo-worker-1   https://127.7.0.3:50002/metrics   10.5.0.3\n"));
}

}  // namespace
}  // namespace talos::cluster
