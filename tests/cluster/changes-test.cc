// Hundreds of changes of the config, harmful and good, on nodes in containers, with parameters from
// a seed (changes.h). After a harmful one the node answers again with the config that it had, and
// says why; a good one stays, and is in effect. Some are repeated with a power cut at each write of
// the node to STATE; no unflushed write of a container is lost by that, but of PowerCuts.* are.
//
//   CHANGES_HARMFUL, CHANGES_GOOD  how many of each
//   CHANGES_CUT                    harmful ones that are repeated with a cut at each write
//   CHANGES_NODES                  lone nodes
//   CHANGES_CLUSTERS=1             also three control-plane nodes, and workers
//   CHANGES_SEED, CHANGES_ONLY     the seed; kinds whose names have this text
//   CHANGES_TRIAL                  the time of a trial
//
// The kinds for machines, with bonds, VLANs, bridges and disks, are made on none of these nodes,
// and are named at the end.
//
// Trials mostly wait, so all clusters work at the same time, but one node of the three after
// another.
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <thread>

#include "tests/cluster/change-runs.h"

namespace talos {
namespace {

using changes::countOf;
using changes::Place;
using changes::Victim;
using changes::Work;
using harness::Cluster;

constexpr const char *kClient = "10.5.0.1", *kMembers[] = {"10.5.0.2", "10.5.0.3", "10.5.0.4"};

std::vector<std::string> shapeOf(const char* masters, const char* workers) {
  return {"--provisioner", "container", "--masters",       masters,
          "--workers",     workers,     "--bootstrap=true"};
}

void workOnLone(Work& work, unsigned number) {
  auto name = "chg" + std::to_string(number);
  Cluster cluster(name, shapeOf("1", "0"));
  std::vector<Victim> one;
  one.emplace_back(work, cluster, name + "-master-1", Place{kMembers[0], kClient, {}},
                   cluster.endpoint());
  workOn(work, one, changes::kLone);
}

void workOnTrio(Work& work) {
  Cluster cluster("chgtrio", shapeOf("3", "0"));
  std::vector<Victim> three;
  for (int i = 0; i < 3; ++i) {
    Place place{kMembers[i], kClient, {}};
    for (auto other : kMembers) {
      if (other != place.address) place.others.emplace_back(other);
    }
    three.emplace_back(work, cluster, "chgtrio-master-" + std::to_string(i + 1), place,
                       cluster.endpoint(place.address));
  }
  workOn(work, three, changes::kTrio);
}

// The control-plane node calls the workers.
void workOnWorkers(Work& work) {
  Cluster cluster("chgwork", shapeOf("1", "2"));
  std::vector<std::thread> threads;
  for (int i = 1; i <= 2; ++i) {
    threads.emplace_back([&, i] {
      std::vector<Victim> one;
      one.emplace_back(work, cluster, "chgwork-worker-" + std::to_string(i),
                       Place{kMembers[i], kMembers[0], {}}, cluster.endpoint());
      workOn(work, one, changes::kWorker);
    });
  }
  for (auto& thread : threads) thread.join();
}

// Catches: a harmful change that stays, or goes back with another reason or without one; a node
// that does not answer after it; a good change that goes back or is not in effect; a power cut
// between two writes of a trial after which the config is neither.
TEST(Changes, NoneStrandsANode) {
  auto seed = countOf("CHANGES_SEED", "1");
  bool clusters = countOf("CHANGES_CLUSTERS", "0") > 0;
  auto lone = countOf("CHANGES_NODES", "4");
  unsigned nodes =
      (lone > 0 ? changes::kLone : 0) | (clusters ? changes::kTrio | changes::kWorker : 0);
  Work work(seed, changes::drawTasks(seed, nodes, countOf("CHANGES_HARMFUL", "6"),
                                     countOf("CHANGES_GOOD", "6"), countOf("CHANGES_CUT", "0")));
  std::vector<std::thread> threads;
  auto start = [&](std::function<void()> act) {
    threads.emplace_back([act] {
      try {
        act();
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    });
  };
  if (clusters) {
    start([&] { workOnTrio(work); });
    start([&] { workOnWorkers(work); });
  }
  for (unsigned i = 1; i <= lone; ++i) start([&, i] { workOnLone(work, i); });
  for (auto& thread : threads) thread.join();
  for (bool harmful : {true, false}) {
    for (auto kind : changes::kindsOn(changes::kMachine, harmful)) {
      if ((kind->on & nodes) == 0) std::cerr << "not made, needs a machine: " << kind->name << "\n";
    }
  }
  EXPECT_EQ(work.conclude(), 0u);
  EXPECT_EQ(work.left(), 0u);
}

}  // namespace
}  // namespace talos
