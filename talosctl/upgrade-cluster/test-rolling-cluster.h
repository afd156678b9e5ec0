// For tests: a cluster whose nodes are upgraded on request. Each look at a node advances it by a
// step: it writes the system, is away, is on trial, and is done or back on its old system.
#pragma once

#include <gtest/gtest.h>
#include <kj/timer.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "talosctl/upgrade-cluster/rolling-run.h"
#include "talosctl/upgrade-cluster/test-survey.h"

namespace talos::talosctl {

struct ModelRollingCluster final : public RollingCluster {
  enum Phase { kOld, kWriting, kAway, kTrying, kDone, kFailed };
  std::map<std::string, Phase> phases;
  std::set<std::string> bad;       // nodes that fall back
  std::vector<std::string> requests;  // "fetch 10.5.0.2 keep", "upgrade 10.5.0.2"
  std::map<std::string, std::string> fetchErrors;
  std::set<std::string> oldSystems;  // nodes that cannot fetch
  // Errors of successive calls of upgrade().
  std::map<std::string, std::vector<ErrorKind>> refusals;
  kj::Function<void(ClusterSurvey&)> change = [](auto&) {};
  std::string leader = "m-1";
  size_t together = 0;  // largest number of nodes upgraded at the same time
  unsigned surveys = 0;

  Phase phase(kj::StringPtr node) {
    auto found = phases.find(node.cStr());
    return found == phases.end() ? kOld : found->second;
  }

  kj::Promise<ClusterSurvey> survey() override {
    ++surveys;
    auto survey = modelSurvey();
    for (auto& member : KJ_ASSERT_NONNULL(survey.etcd).members) {
      member.leader = member.name == leader.c_str();
    }
    for (auto& node : survey.nodes) {
      switch (phase(node.address)) {
        case kOld:
          break;
        case kWriting:
          setStage(node, "writing", "v1");
          break;
        case kAway:
          node.silence = kj::str("no answer");
          break;
        case kTrying:
          setStage(node, "trying");
          break;
        case kDone:
          setStage(node, "done");
          break;
        case kFailed:
          setStage(node, "failed", "v1");
          KJ_ASSERT_NONNULL(node.upgrade).reason = kj::str("apid is not up");
          break;
      }
    }
    change(survey);
    return kj::mv(survey);
  }

  kj::Promise<Look> look(kj::StringPtr node, kj::StringPtr) override {
    auto& at = phases[node.cStr()];
    size_t busy = 0;
    for (auto& [name, one] : phases) busy += one == kWriting || one == kAway || one == kTrying;
    together = kj::max(together, busy);
    at = at == kWriting                            ? kAway
         : at == kAway                             ? kTrying
         : at == kTrying && bad.count(node.cStr()) ? kFailed
         : at == kTrying                           ? kDone
                                                   : at;
    auto look = [](Verdict verdict, kj::StringPtr text) {
      return Look{Judgement{verdict, kj::str(text)}, modelTarget().digest, kj::str("v2")};
    };
    switch (at) {
      case kAway:
        return error(ErrorKind::kUnavailable, "no answer");
      case kTrying:
        return look(Verdict::kWait, "trying slot B (v2)");
      case kFailed:
        return look(Verdict::kFailed, "apid is not up; back on slot A (v1)");
      default:
        return look(Verdict::kDone, "running slot B (v2), healthy and confirmed");
    }
  }

  kj::Promise<FetchOutcome> fetch(kj::StringPtr node, const TargetImage& target, bool keep,
                                  Fetched progress) override {
    requests.push_back(kj::str("fetch ", node, keep ? " keep" : "").cStr());
    progress("50 %");
    FetchOutcome outcome;
    outcome.node = kj::str(node);
    outcome.unknown = oldSystems.count(node.cStr()) > 0;
    outcome.error = kj::str(fetchErrors[node.cStr()].c_str());
    outcome.digest = modelTarget().digest;
    outcome.version = kj::str("v2");
    return kj::mv(outcome);
  }

  kj::Promise<kj::String> upgrade(kj::StringPtr node, const TargetImage& target) override {
    requests.push_back(kj::str("upgrade ", node).cStr());
    EXPECT_EQ(target.digest, modelTarget().digest);
    auto& refused = refusals[node.cStr()];
    if (!refused.empty()) {
      auto kind = refused.front();
      refused.erase(refused.begin());
      if (kind == ErrorKind::kConflict) phases[node.cStr()] = kWriting;  // as by another run
      return error(kind, "not now");
    }
    phases[node.cStr()] = kWriting;
    return kj::str("boot-1");
  }

  kj::Promise<void> forfeit(kj::StringPtr node) override {
    requests.push_back(kj::str("forfeit ", node).cStr());
    leader = leader == "m-1" ? "m-2" : "m-1";
    return kj::READY_NOW;
  }
};

}  // namespace talos::talosctl
