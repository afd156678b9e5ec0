#include "talosctl/cluster/nodes/cluster-show.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace talos::cluster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Catches: a container with a disk or with the CPUs of a virtual machine, a state without its
// reason, an accelerator where nothing is accelerated.
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
  EXPECT_THAT(renderShow(cluster).cStr(), Not(HasSubstr("ACCELERATOR")));
}

// Catches: a cut that does not say when it was, what was kept counted as lost.
TEST(ClusterShow, WhatACutHasDone) {
  auto said = [](uint64_t at, uint32_t unflushed, uint32_t kept, bool torn) {
    capnp::MallocMessageBuilder message;
    auto cut = message.initRoot<rpc::PowerCut>();
    cut.setNode("n");
    cut.setAtWrite(at), cut.setUnflushed(unflushed), cut.setKept(kept), cut.setTorn(torn);
    return std::string(renderCut(cut).cStr());
  };
  EXPECT_EQ(said(0, 0, 0, false), "n: power cut; no write was unflushed");
  EXPECT_EQ(said(0, 4, 0, false), "n: power cut; unflushed writes lost: 4");
  EXPECT_EQ(said(17, 5, 2, false), "n: power cut at write 17; unflushed writes lost: 3 of 5");
  EXPECT_EQ(said(1, 5, 5, true),
            "n: power cut at write 1; unflushed writes lost: 0 of 5, and one torn");
}

// Catches: a recording of which one cannot tell where it is and whether it goes on.
TEST(ClusterShow, ARecordingSaysWhereAndHowFar) {
  capnp::MallocMessageBuilder message;
  auto it = message.initRoot<rpc::DiskRecording>();
  it.setNode("n");
  EXPECT_STREQ(renderRecording(it).cStr(), "n: not recorded since it was started");
  it.setFile("/tmp/log");
  it.setRunning(true);
  it.setEvents(20);
  it.setWrites(17);
  it.setBytes(2 << 20);
  EXPECT_STREQ(renderRecording(it).cStr(),
               "n: recording to /tmp/log; 17 writes, 3 flushes, 2.1 MB");
  it.setRunning(false);
  EXPECT_STREQ(renderRecording(it).cStr(), "n: recorded to /tmp/log; 17 writes, 3 flushes, 2.1 MB");
}

}  // namespace
}  // namespace talos::cluster
