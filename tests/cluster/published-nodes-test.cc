// Nodes with the machine configs of tests/client/configs, as people publish them: each has the
// settings of its config, as the facts beside the config say, or reports that they have no effect.
//
// PUBLISHED_CONFIGS chooses configs ("dual-stack,vultr"). The table at the end is Markdown.
#include <gtest/gtest.h>
#include <kj/exception.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>

#include "tests/cluster/config-node.h"
#include "tests/cluster/fact-checks.h"
#include "tests/harness/cluster.h"
#include "tests/published/config-facts.h"
#include "tests/published/published-config.h"

namespace talos::published {
namespace {

using harness::contains;
using harness::slurp;
namespace fs = std::filesystem;

constexpr double kSettles = 120;  // s, from the node's first answer; emulated, beside other tests
constexpr const char* kControlPlane = "container.yaml";

struct Row {
  std::string config;
  size_t facts = 0, hold = 0;
  std::vector<std::string> differences;  // facts that do not hold, each with the node's own text
};

std::string cell(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return std::regex_replace(text, std::regex("\\|"), "\\|");
}

std::vector<PublishedConfig> chosenConfigs() {
  auto all = readAll(CONFIGS);
  auto chosen = getenv("PUBLISHED_CONFIGS");
  if (chosen == nullptr) return all;
  auto names = "," + std::string(chosen) + ",";
  std::erase_if(all,
                [&](auto& one) { return !contains(names, "," + one.path.stem().string() + ","); });
  return all;
}

FactsFile factsOf(const PublishedConfig& config) {
  auto path = config.path;
  return parseFacts(slurp(path.replace_extension(".facts")));
}

std::string tokenOf(const std::string& config) {
  std::smatch found;
  static const std::regex token("\n  token: (\\S+)");
  return std::regex_search(config, found, token) ? found[1].str() : "";
}

// Returns each fact that does not hold, with the node's own text. Waits for all facts up to
// kSettles.
std::vector<std::string> differencesOf(const FactContext& context, std::vector<Fact> facts) {
  auto waiting = facts;
  harness::eventually(
      [&] {
        std::erase_if(waiting, [&](auto& fact) { return contradiction(context, fact).empty(); });
        return waiting.empty();
      },
      kSettles, 2);
  // A fact may have held for a moment only.
  std::vector<std::string> differences;
  for (auto& fact : facts) {
    auto there = contradiction(context, fact);
    if (!there.empty()) differences.push_back("`" + fact.line + "`: " + there);
  }
  return differences;
}

class PublishedNodes : public testing::TestWithParam<PublishedConfig> {
 public:
  static void SetUpTestSuite() { secrets = new config::Secrets(config::makeSecrets()); }
  static void TearDownTestSuite() {
    std::cout << "\n| config | facts | hold | differs |\n|---|---|---|---|\n";
    for (auto& row : rows) {
      std::string differences;
      for (auto& one : row.differences)
        differences += (differences.empty() ? "" : "<br>") + cell(one);
      std::cout << "| " << row.config << " | " << row.facts << " | " << row.hold << " | "
                << differences << " |\n";
    }
    std::cout << std::flush;
    delete secrets;
  }

 protected:
  static config::Secrets* secrets;
  static std::vector<Row> rows;

  std::string folder;
  PublishedNodes() {
    auto made = (fs::temp_directory_path() / "talos-published-XXXXXX").string();
    folder = mkdtemp(made.data());
  }
  ~PublishedNodes() noexcept override { fs::remove_all(folder); }

  static std::string filledFor(const FactsFile& facts, const std::string& config) {
    return filled(fitted(facts, config), placeholdersFor(*secrets));
  }
  static std::string controlPlane() {
    for (auto& one : readAll(CONFIGS)) {
      if (one.name() == kControlPlane) return filled(one.config, placeholdersFor(*secrets));
    }
    ADD_FAILURE() << kControlPlane << " is missing";
    return "";
  }

  harness::Result validate(const std::string& text) const {
    auto file = folder + "/" + GetParam().name();
    std::ofstream(file) << text;
    auto result =
        harness::run({harness::talosctlPath(), "validate", "-c", file, "-m", GetParam().mode});
    result.err += result.out;
    return result;
  }

  void compare(const FactsFile& facts, const NodeConfig& config, const std::string& validated,
               Row& row) const {
    try {
      auto node = startNode(config, facts, *secrets);
      row.differences = differencesOf({*node, validated}, facts.facts);
      row.hold = row.facts - row.differences.size();
      if (!row.differences.empty()) std::cout << "--- console\n" << node->console() << "\n";
    } catch (const kj::Exception& e) {
      row.differences.push_back("the node does not run: " + std::string(e.getDescription().cStr()));
    }
  }
};
config::Secrets* PublishedNodes::secrets = nullptr;
std::vector<Row> PublishedNodes::rows;

}  // namespace

// Names the config in gtest's output.
void PrintTo(const PublishedConfig& config, std::ostream* out) {
  *out << config.name();
}

// Catches: a setting that is accepted and lost on its way to the kernel or to the system's files, a
// setting whose effect differs from its meaning in Talos, a setting without effect that no warning
// names.
TEST_P(PublishedNodes, HaveWhatTheirConfigAsksFor) {
  auto facts = factsOf(GetParam());
  for (auto& fact : facts.facts) {
    for (auto& word : fact.words) word = filled(word, placeholdersFor(*secrets));
  }
  auto text = filledFor(facts, GetParam().config);
  auto validated = validate(text);
  Row row{GetParam().name(), std::max<size_t>(facts.facts.size(), 1)};
  if (!facts.refused.empty()) {
    bool refused = validated.status == 1 && contains(validated.err, facts.refused);
    row.hold = refused;
    if (!refused) row.differences.push_back("`refused: " + facts.refused + "`: " + validated.err);
  } else {
    bool worker = !contains(text, "type: controlplane\n") && !contains(text, "type: init\n");
    compare(facts, {text, worker, tokenOf(text), controlPlane()}, validated.err, row);
  }
  for (auto& difference : row.differences) ADD_FAILURE() << row.config << ": " << difference;
  rows.push_back(row);
}
INSTANTIATE_TEST_SUITE_P(Each, PublishedNodes, testing::ValuesIn(chosenConfigs()), [](auto& info) {
  return std::regex_replace(info.param.path.stem().string(), std::regex("[^A-Za-z0-9]"), "_");
});

}  // namespace talos::published
