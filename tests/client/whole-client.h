// The client with its whole table of commands, on a model of a cluster that can answer all of them.
// Files that commands write are below a folder of the test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/config/config-generate.h"
#include "common/health/test-health.h"
#include "talosctl/commands/test-cluster.h"
#include "tests/client/command-words.h"
#include "tests/client/test-kubernetes.h"

namespace talos::talosctl {

using Words = std::vector<std::string>;

constexpr kj::StringPtr kRelease = "1.34.4"_kj;

struct WholeClient : public ::testing::Test {
  TestCluster c;
  std::vector<Leaf> leaves;
  kj::String machine;  // a config
  ModelHealth health;
  TestKubernetes kubernetes{c, kRelease};
  WholeClient() {
    health.survey.setVersion(kj::str("v", kRelease));
    c.root = newRoot();
    addWholeTable(*c.root);
    leaves = leavesOf(*c.root);
    // Commands that write files write them here.
    KJ_SYSCALL(chdir(c.folder.cStr()));
    auto made = config::generate("c1", "https://10.0.0.2:6443", {});
    writeFileAtomically(kj::str(c.folder, "/machine.yaml"), made.controlplane, 0600);
    machine = kj::str(made.controlplane);
    writeFileAtomically(kj::str(c.folder, "/pod.yaml"),
                        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
                        "spec: {containers: [{name: a, image: x}]}\n"_kj,
                        0600);
    c.test.environment.insert(kj::str("HOME"), kj::str(c.folder));
    c.test.environment.insert(kj::str("TALOS_EDITOR"), kj::str("true"));
    c.test.clock.time = kj::systemPreciseCalendarClock().now();  // certificates are of today
    freshNode();
  }
  ~WholeClient() noexcept override { KJ_SYSCALL(chdir("/")); }

  // Resets the node that commands are for, and those that its Kubernetes knows.
  void freshNode() {
    c.nodes.clear();
    // The endpoint is reset as well, because it gives a kubeconfig.
    for (auto address :
         {"127.0.0.1"_kj, "10.0.0.2"_kj, "10.5.0.2"_kj, "10.5.0.3"_kj, "10.5.0.4"_kj}) {
      FakeNode fresh;
      for (auto id : {"apid", "etcd", "kubelet"}) fresh.serviceIds.add(kj::str(id));
      fresh.config.document = kj::str(machine);
      fresh.kubernetes.release = kj::str(kRelease);
      fresh.kubernetes.survey = health.survey.asReader();
      fresh.kubeconfig = kubernetes.kubeconfig();
      c.nodes.insert(kj::str(address), kj::mv(fresh));
    }
  }

  struct Outcome {
    int status;  // -1: it did not end
    std::string out, err;
  };
  // Runs a command, and interrupts it if it has not ended after `rounds` of the client's clock.
  Outcome run(const Words& words, int rounds = 400) {
    auto pointers = KJ_MAP(word, words) {
      return kj::StringPtr(word.c_str(), word.size());
    };
    auto interrupt = kj::newPromiseAndFulfiller<void>();
    auto running = c.start(pointers, kj::mv(interrupt.promise));
    auto& scope = c.test.io.waitScope;
    Outcome outcome{-1, "", ""};
    for (int round = 0; outcome.status < 0 && round < rounds + 40; ++round) {
      if (round == rounds) interrupt.fulfiller->fulfill();
      for (int i = 0; i < 20 && !running.poll(scope); ++i) {
        c.test.deps.timer.afterDelay(1 * kj::MILLISECONDS).wait(scope);
      }
      if (running.poll(scope)) {
        outcome.status = running.wait(scope);
      } else KJ_IF_MAYBE (next, c.clock.nextEvent()) {
        c.clock.advanceTo(kj::max(*next, c.clock.now()));
      }
    }
    outcome.out = c.test.console.takeOut().cStr();
    outcome.err = c.test.console.takeErr().cStr();
    return outcome;
  }
  static Words with(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Words wordsOf(const Command& command) {
    Words words;
    for (auto* at = &command; at->parent != nullptr; at = at->parent) {
      words.insert(words.begin(), at->name.cStr());
    }
    return words;
  }
};

}  // namespace talos::talosctl
