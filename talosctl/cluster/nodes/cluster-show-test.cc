#include "talosctl/cluster/nodes/cluster-show.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace talos::cluster {
namespace {

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

}  // namespace
}  // namespace talos::cluster
