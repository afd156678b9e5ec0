// Observations written as YAML, and the findings of the checks.
#pragma once

#include <gmock/gmock.h>

#include "common/yaml/yaml-codec.h"
#include "talosctl/diagnose/diagnosis.h"

namespace talos::talosctl {

// A diagnosis of a YAML text; fails the test if the text is invalid.
class Diagnosed {
 public:
  explicit Diagnosed(kj::StringPtr yaml) {
    auto cluster = observations.initRoot<rpc::Observations>();
    Problems problems;
    bool good = codec::readYaml(yaml, capnp::DynamicStruct::Builder(cluster), problems);
    for (auto& problem : problems)
      ADD_FAILURE() << problem.toString().cStr() << "\n" << yaml.cStr();
    EXPECT_TRUE(good);
    diagnose(cluster.asReader(), result.initRoot<rpc::Diagnosis>());
  }
  rpc::Diagnosis::Reader get() { return result.getRoot<rpc::Diagnosis>().asReader(); }
  std::string text() { return diagnosisText(get()).cStr(); }

  // Returns the finding of this check, as a cause or a consequence.
  kj::Maybe<rpc::Diagnosis::Finding::Reader> find(kj::StringPtr check) {
    return findIn(get().getCauses(), check);
  }
  // Returns the names of the causes, in their order.
  std::vector<std::string> causes() {
    std::vector<std::string> names;
    for (auto cause : get().getCauses()) names.push_back(cause.getCheck().cStr());
    return names;
  }
  // Returns the names from the cause down to this check: "registry > image-kubelet > kubelet".
  std::string chain(kj::StringPtr check) { return chainIn(get().getCauses(), check); }

 private:
  capnp::MallocMessageBuilder observations, result;

  using Findings = capnp::List<rpc::Diagnosis::Finding>::Reader;
  static kj::Maybe<rpc::Diagnosis::Finding::Reader> findIn(Findings list, kj::StringPtr check) {
    for (auto one : list) {
      if (one.getCheck() == check) return one;
      KJ_IF_MAYBE (below, findIn(one.getConsequences(), check)) return *below;
    }
    return nullptr;
  }
  static std::string chainIn(Findings list, kj::StringPtr check) {
    for (auto one : list) {
      if (one.getCheck() == check) return check.cStr();
      auto below = chainIn(one.getConsequences(), check);
      if (below.size() > 0) return std::string(one.getCheck().cStr()) + " > " + below;
    }
    return "";
  }
};

// Observations in which a check has a finding, and the same without the cause.
struct CheckCase {
  const char* check;
  const char* text;  // text of the summary or the evidence
  bool certain;
  const char* fires;
  const char* silent;
};
void checkCases(const std::vector<CheckCase>& cases);
std::vector<CheckCase> kubernetesCases();

}  // namespace talos::talosctl
