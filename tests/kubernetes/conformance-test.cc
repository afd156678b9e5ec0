// Upstream's own conformance tests, those of conformance.list, against a cluster of a control plane
// and two workers on container nodes. $CONFORMANCE_TESTS is their program (`make conformance`).
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <map>
#include <regex>
#include <sstream>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

constexpr double kUp = 420, kTests = 3000;  // seconds
constexpr size_t kSideBySide = 3;           // programs that share the list

std::vector<std::string> wanted() {
  std::ifstream file(std::string(SOURCE_FOLDER) + "/conformance.list");
  std::stringstream text;
  text << file.rdbuf();
  return harness::lines(text.str());
}

std::string literally(const std::string& name) {
  static const std::regex special(R"([.*+?^${}()|\[\]\\])");
  return std::regex_replace(name, special, R"(\$&)");
}

// The characters of XML's entities.
std::string plain(std::string text) {
  for (auto& [coded, meant] : std::map<std::string, std::string>{
           {"&#34;", "\""}, {"&#39;", "'"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}}) {
    for (size_t at = 0; (at = text.find(coded, at)) != std::string::npos; ++at) {
      text.replace(at, coded.size(), meant);
    }
  }
  return text;
}

struct Outcome {
  std::string status;  // passed, failed, skipped
  double seconds = 0;
};

// Reads the outcome of each test that was run from a JUnit report, which repeats the labels after
// the test's name.
void readReport(const std::string& path, std::map<std::string, Outcome>& outcomes) {
  std::ifstream file(path);
  static const std::regex testcase(
      R"re(<testcase name="\[It\] ([^"]*)" [^>]*status="([a-z]+)" time="([0-9.]+)")re");
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, testcase) || match[2] == "skipped") continue;
    constexpr std::string_view kLast = "[Conformance]";
    auto name = plain(match[1]);
    outcomes[name.substr(0, name.find(kLast) + kLast.size())] = {match[2], std::stod(match[3])};
  }
}

class Conformance : public KubeHost {
 protected:
  void SetUp() override {
    auto program = getenv("CONFORMANCE_TESTS");
    ASSERT_TRUE(program != nullptr && std::filesystem::exists(program))
        << "$CONFORMANCE_TESTS is not there; run make conformance";
    tests = program;
    ASSERT_NO_FATAL_FAILURE(KubeHost::SetUp());
  }
  // One share of the list; the report is where it returns.
  std::string runShare(const KubeCluster& cluster, const std::vector<std::string>& names,
                       size_t number) {
    auto report = folder + "/conformance-" + std::to_string(number) + ".xml";
    std::vector<std::string> words = {tests,
                                      "--provider=skeleton",
                                      "--disable-log-dump",
                                      "--dump-logs-on-failure=true",
                                      "--ginkgo.no-color",
                                      "--ginkgo.timeout=50m",
                                      "--allowed-not-ready-nodes=0",
                                      "--ginkgo.junit-report=" + report,
                                      "--kubectl-path=" + std::string(getenv("KUBECTL"))};
    for (size_t i = number; i < names.size(); i += kSideBySide) {
      words.push_back("--ginkgo.focus=" + literally(names[i]));
    }
    auto result = cluster.onNode(words, kTests);
    if (result.status != 0) std::cout << result.out << result.err;
    return report;
  }
  std::string tests;
};

// Catches: whatever upstream expects of a cluster and ours does otherwise.
TEST_F(Conformance, TheListPasses) {
  auto names = wanted();
  ASSERT_GE(names.size(), 60u);
  KubeCluster cluster("conformance", 1, 2);
  cluster.awaitReady(3, kUp);
  cluster.awaitPods("kube-system", "k8s-app=kube-dns", 2, kUp);
  if (HasFailure()) return;
  std::vector<std::future<std::string>> shares;
  for (size_t i = 0; i < kSideBySide; ++i) {
    shares.push_back(
        std::async(std::launch::async, [&, i] { return runShare(cluster, names, i); }));
  }
  std::map<std::string, Outcome> outcomes;
  for (auto& share : shares) readReport(share.get(), outcomes);
  for (auto& name : names) {
    auto& outcome = outcomes[name];
    if (outcome.status.empty()) outcome.status = "not run";
    std::cout << outcome.status << "  " << outcome.seconds << " s  " << name << "\n";
    EXPECT_EQ(outcome.status, "passed") << name;
  }
}

}  // namespace
}  // namespace talos
